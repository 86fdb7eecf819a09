"""Deep research: questions over a few pages that lie among many others."""
