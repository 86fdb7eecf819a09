"""Examples at the study's scale, kept as recipes: what to build a context from, not the context."""
