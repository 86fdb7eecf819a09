"""Kinds of answers. A task says which kind its gold answer is of, and the verifier compares accordingly."""

from typing import Literal

AnswerType = Literal[
    "number",  # with a unit or without: "12,480", "3.5 km", "45%"
    "date",  # a day, a month of a year, or a year
    "label",  # one of a closed set, comparisons ("less common than") included
    "identifier",  # a name in code; case counts
    "path",  # of a file in a codebase, relative, with "/"
    "lines",  # a set of line numbers: "[10, 42]"
    "literal",  # a Python literal: "None", "'utf-8'", "{1: 2}"
    "code",  # a Python expression, white space aside: "dict[str, int]"
    "set",  # of texts, a JSON list in any order
    "list",  # of texts, a JSON list whose order counts
    "pairs",  # unordered pairs: "[[101, 205], [101, 330]]"
    "choice",  # a letter
    "text",  # anything else, for the judge to read
]
