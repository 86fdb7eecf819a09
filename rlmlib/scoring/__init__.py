"""Formulas of the study as pure functions: correctness, reward, pass@k and intervals."""
