"""Correctness without a judge: exact match over equivalent forms (REFERENCE: correctness, rule 4)."""

import json
import re
import unicodedata
from collections.abc import Iterable

_NUMBER = re.compile(r"[-+]?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?")


def canonical(text: str) -> str:
    """One spelling for equivalent answers: NFKC, white space, one pair of quotes, case, JSON, number."""
    text = " ".join(unicodedata.normalize("NFKC", text).split())
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"`":
        text = text[1:-1].strip()
    if _NUMBER.fullmatch(text.replace("\u2212", "-")):
        return _canonical_number(text)
    if text[:1] in "[{":
        try:
            return json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")).casefold()
        except (ValueError, RecursionError):
            pass
    return text.casefold()


def _canonical_number(text: str) -> str:
    text = text.replace("\u2212", "-").replace(",", "").lstrip("+")
    whole, _, fraction = text.partition(".")
    sign, digits = ("-", whole[1:]) if whole.startswith("-") else ("", whole)
    digits, fraction = digits.lstrip("0") or "0", fraction.rstrip("0")
    number = f"{digits}.{fraction}" if fraction else digits
    return number if number == "0" else sign + number


def is_correct(answer: str | None, golds: Iterable[str]) -> bool:
    """True when the answer equals a gold answer in canonical form. No answer and an empty one are wrong."""
    if answer is None or not answer.strip():
        return False
    return canonical(answer) in {canonical(gold) for gold in golds}
