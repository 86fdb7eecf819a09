"""How answers of each kind compare, one file a kind. Pure functions; none raises on what a model wrote.

Each kind has `compare(answer, gold, question) -> Verdict3`. It accepts what it can prove, rejects a plain answer of the
same kind that differs, and leaves the rest to the judge.
"""
