"""Coding at the scale of the study: questions on the syntax trees of real Python codebases."""
