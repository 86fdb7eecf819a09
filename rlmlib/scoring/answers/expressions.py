"""Python literals by type and value, and expressions by their syntax tree."""

import ast
import re
import warnings

from .markup import peel_code
from .names import code_in, without_stop
from .outcome import ASK, CORRECT, INCORRECT, Verdict3

MOST_CHARS = 4_000  # of an expression that is parsed
BROKEN = (SyntaxError, ValueError, TypeError, RecursionError, MemoryError, OverflowError)
_BARE_WORD = re.compile(r"[\w.+/-]+")
_UNIONS = re.compile(r"\b(?:Optional|Union)\b|\|")


def compare_literals(answer: str, gold: str, question: str) -> Verdict3:
    """By type and value: True is not 1, nor 1 1.0. A text may stand without its quotes. A gold that is no literal is code."""
    gold = peel_code(gold)
    wanted = literal(gold)
    if wanted is None:
        return compare_code(answer, gold, question)
    readings = [peel_code(answer), without_stop(peel_code(answer)), code_in(answer, gold, question)]
    given = [literal(reading) for reading in readings]
    if wanted in given:
        return CORRECT
    is_text = _unquoted(gold) != gold
    if is_text and _unquoted(gold) in readings and _unquoted(gold).strip():
        return CORRECT if given == [None] * len(given) else ASK  # 5 is not '5'
    if any(literal(_unquoted(reading)) == wanted for reading in readings):
        return ASK
    if given[0] is None:
        return INCORRECT if is_text and _BARE_WORD.fullmatch(readings[1]) else ASK
    return INCORRECT


def literal(text: str) -> str | None:
    """A Python literal in one spelling that keeps types apart; None for all else."""
    tree = _tree(text)
    if tree is None:
        return None
    try:
        return _spelling(ast.literal_eval(tree))
    except BROKEN:
        return None


def _spelling(value) -> str:
    if isinstance(value, dict):
        return f"dict{sorted((_spelling(k), _spelling(v)) for k, v in value.items())}"
    if isinstance(value, (set, frozenset)):
        return f"set{sorted(map(_spelling, value))}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}{[_spelling(item) for item in value]}"
    return f"{type(value).__name__} {value!r}"


def _unquoted(text: str) -> str:
    """What a string literal says; other text as it is."""
    tree = _tree(text)
    return tree.body.value if tree and isinstance(tree.body, ast.Constant) and isinstance(tree.body.value, str) else text


def compare_code(answer: str, gold: str, question: str) -> Verdict3:
    """By syntax tree. Names with or without their modules, their letter case and forms of a union are for the judge."""
    gold = peel_code(gold)
    wanted = _dump(_tree(gold))
    if wanted is None:
        return CORRECT if " ".join(peel_code(answer).split()) == " ".join(gold.split()) else ASK
    texts = [text.removeprefix("->").strip() for text in (peel_code(answer), code_in(answer, gold, question))]
    readings = [reading for text in texts for reading in (text, without_stop(text), _unquoted(text))]
    if wanted in [_dump(_tree(reading)) for reading in readings]:
        return CORRECT
    trees = [_tree(_unquoted(text)) for text in (texts[0], gold)]
    if None in trees or bool(_UNIONS.search(texts[0])) != bool(_UNIONS.search(gold)):
        return ASK
    loose = [_loose_dump(tree) for tree in trees]
    return ASK if None in loose or loose[0] == loose[1] else INCORRECT


class _Loose(ast.NodeTransformer):
    """`typing.Dict` as `dict`."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.Name:
        return ast.Name(node.attr.casefold(), node.ctx)

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(node.id.casefold(), node.ctx)


def _loose_dump(tree: ast.Expression) -> str | None:
    try:
        return ast.dump(_Loose().visit(tree))
    except BROKEN:
        return None


def _tree(text: str) -> ast.Expression | None:
    """The tree of an expression, new at each call; None for what is none or too long."""
    if len(text) > MOST_CHARS:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape in an answer is not the reader's concern
            return ast.parse(text.strip(), mode="eval")
    except BROKEN:
        return None


def _dump(tree: ast.Expression | None) -> str | None:
    try:
        return None if tree is None else ast.dump(tree)
    except BROKEN:
        return None
