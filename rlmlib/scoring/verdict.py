"""What a judgement says, and where the known ones are kept."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ..errors import RunError
from ..harness.trajectory import Tokens
from ..runs import append_jsonl, read_jsonl

NOTHING = Tokens()


@dataclass(frozen=True)
class Verdict:
    """correct is None where no verdict could be had: an infrastructure failure, never a wrong answer.

    source: static (exact match), judge (a call of the judge model, or a failed one), cache (an equal question was
    judged before, or at the same moment), none (there was no answer to judge). reason says why correct is None.
    tokens: what this verdict cost; a shared call is charged to one verdict only.
    """

    correct: bool | None
    source: Literal["static", "judge", "cache", "none"]
    tokens: Tokens = NOTHING
    reason: str = ""

    @classmethod
    def unknown(cls, reason: str, tokens: Tokens = NOTHING) -> "Verdict":
        return cls(None, "judge", tokens, reason)

    def shared(self) -> "Verdict":
        """The same verdict for another who asked the same: it costs nothing more."""
        return replace(self, source=self.source if self.correct is None else "cache", tokens=NOTHING)


def verdict_key(judge: str, question: str, golds: Iterable[str], candidate: str) -> str:
    """Hex sha256 of all that a verdict rests on. `judge` names the model and its instructions; the order of golds is ignored."""
    parts = json.dumps([judge, question, sorted(golds), candidate], ensure_ascii=False)
    return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()


class VerdictCache:
    """Known verdicts by key, in memory and, given a path, in a JSONL file with one writer at a time.

    A row is appended whole and synced, so kill -9 loses at most the last one. Raises RunError when the file
    cannot be read or written.
    """

    def __init__(self, path: str | Path | None = None):
        self.path = None if path is None else Path(path)
        self._known: dict[str, bool] = {} if self.path is None else _read(self.path)

    def get(self, key: str) -> Verdict | None:
        return Verdict(self._known[key], "cache") if key in self._known else None

    def put(self, key: str, correct: bool):
        self._known[key] = correct
        if self.path is not None:
            append_jsonl(self.path, [{"key": key, "correct": correct}])


def _read(path: Path) -> dict[str, bool]:
    try:
        rows = read_jsonl(path)
        return {str(row["key"]): bool(row["correct"]) for row in rows}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RunError(f"{path}: is not a readable verdict cache ({type(error).__name__}); name another file or delete it") from None
