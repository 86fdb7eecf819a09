"""rlmlib: train and study Recursive Language Models. Importing it loads nothing heavy."""

__version__ = "0.1.0"
