"""Task families: questions over long contexts, with answers that a program can check."""
