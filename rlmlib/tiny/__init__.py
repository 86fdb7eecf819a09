"""The embedded policy `tiny`: a small real transformer, its tokenizer and how it is made from nothing."""

from pathlib import Path

WEIGHTS = Path(__file__).parent / "weights"
