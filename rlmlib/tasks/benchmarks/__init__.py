"""Benchmarks of the study, each with the score that its authors defined."""
