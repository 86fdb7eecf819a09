"""The RLM runtime: a context in a Python REPL outside the model. Imports no torch."""
