"""Benchmarks run: one rollout an item, scored, kept in a file so that a second run goes on, and summed up with intervals."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from ..background import BackgroundLoop
from ..errors import InfrastructureError, RunError
from ..harness.trajectory import Rollout
from ..models.base import ChatModel
from ..runs import append_jsonl, read_jsonl
from ..scoring.judge import Judge
from ..scoring.passk import bootstrap_weights, mean_interval
from ..scoring.verdict import Verdict
from ..tables import brief
from ..tasks.benchmarks.base import BenchmarkItem, needs_judge, score
from ..tasks.benchmarks.load import load

RESAMPLES = 10_000
JUDGE_WAIT_S = 1800.0
GOLD_CHARS = 200  # of a gold answer kept: pairs can be thousands
SHOWN = ("id", "score", "answer", "gold", "stop", "leaf_calls", "leaf_tokens", "error")  # of an item with a low score
SHOWN_CHARS = 60

WITH_LENGTHS = ("s_niah", "oolong", "oolong_pairs")


def plan(
    benchmarks: Iterable[str],
    items: int | None,
    lengths: Sequence[int],
    seed: int = 0,
    sources: Mapping[str, str | Path] | None = None,
    options: Mapping[str, Mapping] | None = None,
) -> Iterator[BenchmarkItem]:
    """The items of several benchmarks, one after the other.

    items: of each length where a benchmark has lengths, else of each benchmark. sources, options: by benchmark, for `load`.
    """
    for name in benchmarks:
        own = {"lengths": lengths} if name in WITH_LENGTHS else {}
        yield from load(name, (sources or {}).get(name), items, seed, **own | dict((options or {}).get(name, {})))


class Asker(Protocol):
    """What answers: an rlmlib.RLM, or a baseline."""

    def ask(self, question: str, context) -> Rollout: ...


JudgeCall = Callable[[BenchmarkItem, str], Verdict]


@dataclass(frozen=True)
class Result:
    """One item answered. Its question and context are not kept, nor, where a judge decides, its answer and gold: they may be secret.

    score is None where there is none to be had: the machinery failed, or the judge. by: rule, judge, or "exact match", a lower
    bound where a judge was needed and there is none. length: nominal tokens, None where a benchmark has no lengths.
    asked: of the question and context, so that another item of the same id is known to be another. gold: its first GOLD_CHARS.
    """

    who: str
    benchmark: str
    id: str
    asked: str
    length: int | None
    score: float | None
    by: str
    answer: str | None
    stop: str
    leaf_calls: int
    leaf_tokens: int
    total_tokens: int
    dollars: float | None
    seconds: float
    error: str | None
    gold: str | None = None


def measure(item: BenchmarkItem, asker: Asker, who: str, judge: JudgeCall | None = None) -> Result:
    """One rollout, scored by the item's rule. What fails in the machinery is an error, never a zero."""
    rollout, value, by = Rollout(), None, "rule"
    try:
        rollout = asker.ask(item.question, item.context)
        error = rollout.error
        if error is None:
            value, by, error = _scored(item, rollout.answer, judge)
    except InfrastructureError as failure:
        error = str(failure)
    usage = rollout.usage
    return Result(
        who=who,
        benchmark=item.benchmark,
        id=item.id,
        asked=fingerprint(item),
        length=item.metadata.get("length"),
        score=value,
        by=by,
        answer=None if item.score == "judge" else rollout.answer,
        stop=rollout.stop,
        leaf_calls=usage.leaf_calls,
        leaf_tokens=usage.leaf,
        total_tokens=usage.total,
        dollars=usage.dollars,
        seconds=round(rollout.seconds, 3),
        error=error,
        gold=None if item.score == "judge" else " | ".join(item.golds)[:GOLD_CHARS],
    )


def fingerprint(item: BenchmarkItem) -> str:
    """The first 16 hex digits of the sha256 of an item's question and context."""
    text = f"{item.question}\n{item.context}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _scored(item: BenchmarkItem, answer: str | None, judge: JudgeCall | None) -> tuple[float | None, str, str | None]:
    """(score, by whom, error)."""
    if not needs_judge(item, answer):
        return score(item, answer), "rule", None
    if judge is None:
        return score(item, answer), "exact match", None
    verdict = judge(item, answer)
    if verdict.correct is None:
        replied = verdict.tokens.completion > 0  # the reason may then quote a reply, and a reply the item
        return None, "judge", "the judge's replies held no verdict; use another model" if replied else verdict.reason
    return float(verdict.correct), "judge", None


def run(
    items: Iterable[BenchmarkItem],
    asker: Asker,
    who: str,
    path: Path | None = None,
    judge: JudgeCall | None = None,
    show: Callable[[str], None] | None = None,
) -> list[Result]:
    """Results of all items, in order. `who` names the model and its settings.

    path: a JSONL file where each result is appended as it comes; items that it holds by the same `who`, without an error, are
    not asked again. Raises RunError where it cannot be read or written.
    """
    earlier = [] if path is None else [result for result in read_results(path) if result.who == who and result.error is None]
    known = {(result.id, result.asked): result for result in earlier}
    results = []
    for item in items:
        result = known.get((item.id, fingerprint(item)))
        if result is None:
            result = measure(item, asker, who, judge)
            if path is not None:
                append_jsonl(path, [asdict(result)])
        results.append(result)
        if show is not None:
            show(f"{len(results)} answered, last {item.id}: {'failed' if result.score is None else f'{result.score:.2f}'}")
    return results


def read_results(path: Path) -> list[Result]:
    """The results in a file, none where there is no file. A last line that a crash cut is left out: that item is asked again.

    Raises RunError for any other damage, and for a file of something else.
    """
    try:
        return [Result(**row) for row in read_jsonl(path)]
    except (OSError, ValueError, TypeError) as error:
        raise RunError(f"{path}: is no file of benchmark results ({type(error).__name__}); name another one or delete it") from None


def summarise(results: list[Result], resamples: int = RESAMPLES, seed: int = 0) -> list[dict]:
    """A row for each benchmark and length, in order of appearance: n, score with its 95 % bootstrap interval over items, means.

    n counts the items with a score; `failed` those without. "exact" says how many had a judge's item scored by exact match.
    """
    groups: dict[tuple[str, int | None], list[Result]] = {}
    for result in results:
        groups.setdefault((result.benchmark, result.length), []).append(result)
    return [_summary(benchmark, length, group, resamples, seed) for (benchmark, length), group in groups.items()]


def _summary(benchmark: str, length: int | None, group: list[Result], resamples: int, seed: int) -> dict:
    scored = [result for result in group if result.score is not None]
    row = {"benchmark": benchmark, "length": length, "n": len(scored), "failed": len(group) - len(scored)}
    row["exact"] = sum(result.by == "exact match" for result in scored)
    measures = {name: [getattr(result, name) for result in scored] for name in ("score", "leaf_tokens", "total_tokens", "seconds")}
    if not scored:
        return row | dict.fromkeys(("score", "low", "high", "leaf_tokens", "total_tokens", "seconds"))
    counts = bootstrap_weights([benchmark] * len(scored), resamples, seed)
    row["score"], row["low"], row["high"] = mean_interval(measures.pop("score"), counts)
    return row | {name: sum(values) / len(values) for name, values in measures.items()}


def lowest(results: Iterable[Result], each: int) -> list[dict]:
    """A row for each of the `each` items of a benchmark with the lowest scores, failed ones first; none with a full score.

    Answer and gold are cut to SHOWN_CHARS.
    """
    groups: dict[str, list[Result]] = {}
    for result in results:
        if result.score != 1:
            groups.setdefault(result.benchmark, []).append(result)
    found = [r for group in groups.values() for r in sorted(group, key=lambda r: -1 if r.score is None else r.score)[:each]]
    cut = [{"answer": brief(r.answer, SHOWN_CHARS), "gold": brief(r.gold, SHOWN_CHARS)} for r in found]
    return [{column: getattr(result, column) for column in SHOWN} | texts for result, texts in zip(found, cut, strict=True)]


class SyncJudge:
    """A judge model as `run` calls it. It keeps its verdicts in memory: the questions may be secret."""

    def __init__(self, chat_model: ChatModel):
        self.judge, self._loop = Judge(chat_model), BackgroundLoop("judge")

    def __call__(self, item: BenchmarkItem, answer: str) -> Verdict:
        return self._loop.run(self._verdict(item, answer), JUDGE_WAIT_S, "the judge")

    async def _verdict(self, item: BenchmarkItem, answer: str) -> Verdict:
        async with self.judge:
            return await self.judge.verdict(item.question, item.golds, answer)

    def close(self):
        self._loop.close()
