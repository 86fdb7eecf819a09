"""One run directory -> report.html (a single offline file), figures/ and summary.json.

Whatever exists is shown; what does not is said in a sentence. Everything a model wrote is
escaped by the template: its output is hostile HTML.
"""

from pathlib import Path

from . import charts, page
from .charts import Chart
from .runs import RunDir, read_json, read_jsonl, write_json, write_text
from .wording import disjoint, duration, interval, share, signed, tokens

LABELS = ("base", "trained")
HEADLINE = {"pass_at_1": "correct", "leaf_tokens_mean": "leaf_tokens_mean", "missing_final": "missing_final"}  # key -> name in RATES


def render(run: RunDir) -> Path:
    """Write the report of a run from what is in its directory; returns report.html.

    Raises RunError where the directory holds no run or cannot be written.
    """
    facts = Facts(run)
    pictures = all_charts(facts)
    for chart in pictures.values():
        chart.save(run / "figures")
    write_text(run / "report.html", page.render("report.html.j2", **_page(facts, pictures)))
    write_json(run / "summary.json", facts.summary())
    return run / "report.html"


class Facts:
    """What a run directory says, read once."""

    def __init__(self, run: RunDir):
        self.params = run.params
        self.environment = read_json(run / "env.json")
        self.metrics = run.metrics
        self.summaries, self.rows = {}, {}
        for label in LABELS:
            summary = read_json(run / f"eval/{label}/summary.json")
            rows = read_jsonl(run / f"eval/{label}/rollouts.jsonl")
            if "heldout" in summary and rows:  # an evaluation is finished when it has both
                self.summaries[label], self.rows[label] = summary, rows

    @property
    def labels(self) -> list[str]:
        """Policies that were evaluated, base first."""
        return list(self.summaries)

    @property
    def compared(self) -> bool:
        return len(self.summaries) == len(LABELS)

    def split(self, label: str, split: str) -> dict | None:
        return self.summaries.get(label, {}).get(split)

    def heldout_rows(self, label: str) -> list[dict]:
        """Held-out rollouts; failures of the machinery count for nothing."""
        return [r for r in self.rows[label] if r["split"] == "heldout" and r["error"] is None]

    def difference(self, split: str, rate: str) -> list[float] | None:
        """Trained minus base on the same questions, with its interval; None unless both exist."""
        if not (self.split("base", split) and self.split("trained", split)):
            return None
        from .measures import paired_difference

        base, trained = ([r for r in self.rows[label] if r["split"] == split] for label in LABELS)
        return list(paired_difference(base, trained, self.params, rate))

    @property
    def training_seconds(self) -> float:
        return sum(r["sample_seconds"] + r["train_seconds"] for r in self.metrics)

    @property
    def evaluation_seconds(self) -> float:
        return sum(s["seconds"] or 0.0 for s in self.summaries.values())

    def summary(self) -> dict:
        """summary.json: the held-out headline of each policy; null for a part that does not exist."""
        parts = {label: {key: list(self.summaries[label]["heldout"][key]) for key in HEADLINE} for label in self.labels}
        counts = [self.summaries[label]["heldout"]["n_rollouts"] for label in self.labels]
        return {
            **{label: parts.get(label) for label in LABELS},
            "n_rollouts": min(counts) if counts else None,
            "seed": self.params.seed,
            "seconds": round(self.training_seconds + self.evaluation_seconds, 1) if self.metrics or counts else None,
        }


def verdict(facts: Facts) -> dict:
    """{headline, text, tiles}: did training help, and what did it cost; computed, and honest when it did not."""
    if not facts.compared:
        return {"headline": _partial_headline(facts), "text": _partial_text(facts) + " " + _cost(facts), "tiles": _tiles(facts)}
    differences = {key: facts.difference("heldout", rate) for key, rate in HEADLINE.items()}
    parts = [_compare(facts, "pass_at_1", "On held-out questions the share of right answers is", share, differences)]
    parts.append(_compare(facts, "leaf_tokens_mean", "An attempt spends", tokens, differences, " leaf tokens"))
    parts.append(_compare(facts, "missing_final", "Attempts that end without any answer are", share, differences))
    return {"headline": _headline(differences), "text": " ".join([*parts, _cost(facts)]), "tiles": _tiles(facts)}


def _direction(triple) -> int:
    """1 or -1 where the paired interval leaves out zero, else 0."""
    return (triple[1] > 0) - (triple[2] < 0)


def _headline(differences: dict) -> str:
    accuracy, cost = _direction(differences["pass_at_1"]), _direction(differences["leaf_tokens_mean"])
    spent = {1: "more leaf tokens", 0: "about the same leaf tokens", -1: "fewer leaf tokens"}[cost]
    if accuracy > 0:
        return f"Training helped: more right answers, for {spent}."
    if accuracy < 0:
        return f"Training hurt: fewer right answers, for {spent}."
    if cost < 0:
        return "Training made the policy cheaper; a change in accuracy could not be measured."
    return f"Training did not measurably help: accuracy did not change beyond chance, for {spent}."


def _compare(facts: Facts, key: str, what: str, form, differences: dict, unit: str = "") -> str:
    """'What goes from A to B', and how sure that is."""
    before, after = (facts.summaries[label]["heldout"][key] for label in LABELS)
    if disjoint(before, after):
        sure = "the intervals do not overlap"
    elif _direction(differences[key]):
        sure = f"the intervals overlap, but the difference on the same questions, {signed(differences[key], form)}, is not zero"
    else:
        sure = f"no clear change: the difference on the same questions is {signed(differences[key], form)}"
    return f"{what} {interval(before, form)}{unit} before training and {interval(after, form)} after ({sure})."


def _cost(facts: Facts) -> str:
    if not facts.metrics:
        return "No training step has been done yet."
    steps, planned = len(facts.metrics), facts.params.training.steps
    done = f"{steps} steps" if steps == planned else f"{steps} of {planned} steps so far"
    evaluated = f" and evaluation {duration(facts.evaluation_seconds)}" if facts.evaluation_seconds else ""
    cores = facts.environment.get("cores")
    where = f" on {cores} CPU cores ({facts.environment.get('processor') or 'unknown'})" if cores else ""
    return f"Training took {duration(facts.training_seconds)} ({done}){evaluated}{where}."


def _partial_headline(facts: Facts) -> str:
    if not facts.labels:
        return "Nothing has been evaluated yet, so there is nothing to compare."
    missing = "trained" if facts.labels == ["base"] else "base"
    return f"Only the {facts.labels[0]} policy has been evaluated; whether training helped is open until the {missing} one is."


def _partial_text(facts: Facts) -> str:
    sentences = []
    for label in facts.labels:
        held = facts.summaries[label]["heldout"]
        sentences.append(
            f"The {label} policy is right in {interval(held['pass_at_1'], share)} of held-out rollouts, "
            f"spends {interval(held['leaf_tokens_mean'], tokens)} leaf tokens a rollout, "
            f"and gives no final answer in {interval(held['missing_final'], share)}."
        )
    return " ".join(sentences)


def _tiles(facts: Facts) -> list[dict]:
    """The three numbers that matter, before and after."""
    names = {
        "pass_at_1": ("Right answers", share),
        "leaf_tokens_mean": ("Leaf tokens a rollout", tokens),
        "missing_final": ("No final answer", share),
    }
    tiles = []
    for key, (name, form) in names.items():
        values = {label: facts.summaries[label]["heldout"][key] for label in facts.labels}
        if values:
            tiles.append({"name": name, **{label: {"value": form(v[0]), "interval": interval(v, form)} for label, v in values.items()}})
    return tiles


def table(facts: Facts, split: str) -> list[dict]:
    """Rows of the headline table: name, a cell a policy, and the paired difference where it is defined."""
    found = [s for s in (facts.split(label, split) for label in LABELS) if s]
    if not found:
        return []
    largest = max(int(k.removeprefix("pass_at_")) for k in found[0] if k.startswith("pass_at_"))
    lines = [("pass_at_1", "Right answers, pass@1", share, "correct")]
    if largest > 1:
        lines.append((f"pass_at_{largest}", f"One of {largest} attempts right, pass@{largest}", share, None))
    lines += [
        ("leaf_tokens_mean", "Leaf tokens a rollout, mean", tokens, "leaf_tokens_mean"),
        ("leaf_tokens_median", "Leaf tokens, median", tokens, None),
        ("leaf_tokens_p95", "Leaf tokens, 95th percentile", tokens, None),
        ("total_tokens_mean", "All tokens a rollout (policy and leaf), mean", tokens, "total_tokens_mean"),
        ("leaf_calls", "Leaf calls a rollout", lambda v: f"{v:.2f}", "leaf_calls"),
        ("missing_final", "No final answer", share, "missing_final"),
        ("forced_final", "Final answer only when forced", share, "forced_final"),
    ]
    rows = []
    for key, name, form, rate in lines:
        cells = {label: interval(s[key], form) if (s := facts.split(label, split)) and key in s else "not evaluated" for label in LABELS}
        difference = facts.difference(split, rate) if rate else None
        rows.append({"name": name, **cells, "difference": signed(difference, form) if difference else "–"})
    return rows


# --- charts ----------------------------------------------------------------------------------


def all_charts(facts: Facts) -> dict[str, Chart]:
    """Every chart that the run has data for, by name."""
    import pandas as pd

    made = []
    if facts.labels:
        made.append(charts.cost_accuracy(pd.DataFrame(_cost_rows(facts))))
    if facts.metrics:
        frame = pd.DataFrame(facts.metrics)
        made += [charts.training_dynamics(frame), charts.step_scatter(frame)]
    if facts.labels:
        made.append(charts.pass_at_k(pd.DataFrame(_passk_rows(facts))))
        spent = [{"label": label, "leaf_tokens": r["leaf_tokens"]} for label in facts.labels for r in facts.heldout_rows(label)]
        made.append(charts.token_distribution(pd.DataFrame(spent)))
        made.append(charts.by_family(pd.DataFrame(_family_rows(facts))))
    return {chart.name: chart for chart in made}


def _cost_rows(facts: Facts) -> list[dict]:
    rows = []
    for split in ("heldout", "seen"):
        for label in facts.labels:
            if measured := facts.split(label, split):
                right = dict(zip(("pass_at_1", "pass_low", "pass_high"), measured["pass_at_1"], strict=True))
                spent = dict(zip(("tokens", "tokens_low", "tokens_high"), measured["leaf_tokens_mean"], strict=True))
                rows.append({"label": label, "split": split, **right, **spent})
    return rows


def _passk_rows(facts: Facts) -> list[dict]:
    rows = []
    for label in facts.labels:
        held = facts.summaries[label]["heldout"]
        ks = sorted(int(key.removeprefix("pass_at_")) for key in held if key.startswith("pass_at_"))
        for k in ks:
            rows.append({"label": label, "k": k, **dict(zip(("value", "low", "high"), held[f"pass_at_{k}"], strict=True))})
    return rows


def _family_rows(facts: Facts) -> list[dict]:
    """Accuracy and leaf tokens by family, with intervals over its questions."""
    import numpy as np

    from .measures import by_example, resamples
    from .scoring.passk import mean_interval

    rows = []
    for label in facts.labels:
        grouped = list(by_example(facts.heldout_rows(label)).values())
        for family in sorted({g[0]["family"] for g in grouped}):
            groups = [g for g in grouped if g[0]["family"] == family]
            counts = resamples(groups, facts.params)
            row = {"label": label, "family": family, "questions": len(groups)}
            for column, key in (("pass_at_1", "correct"), ("leaf_tokens", "leaf_tokens")):
                triple = mean_interval([np.mean([r[key] for r in g]) for g in groups], counts)
                row |= dict(zip((column, f"{column}_low", f"{column}_high"), triple, strict=True))
            rows.append(row)
    return rows


# --- examples --------------------------------------------------------------------------------


def pick_pairs(facts: Facts, wanted: int = 3) -> list[tuple[dict, dict]]:
    """(base, trained) rollouts of the same questions, one a family where possible, most telling first.

    Best: base wrong and trained right; then both right and trained cheaper; then what is left.
    """
    pairs = _pairs(facts)

    def telling(pair):
        base, trained = pair
        gained, saved = trained["correct"] - base["correct"], base["leaf_tokens"] - trained["leaf_tokens"]
        return (-gained, not trained["correct"], -saved)

    ranked, chosen = sorted(pairs, key=telling), []
    for fresh_family in (True, False):
        for pair in ranked:
            used = {p[0]["example"] for p in chosen}
            families = {p[0]["family"] for p in chosen}
            if len(chosen) < wanted and pair[0]["example"] not in used and not (fresh_family and pair[0]["family"] in families):
                chosen.append(pair)
    return chosen


def _pairs(facts: Facts) -> list[tuple[dict, dict]]:
    """Held-out rollouts of both policies with the same question and number."""
    if not facts.compared:
        return []
    after = {(r["example"], r["index"]): r for r in facts.heldout_rows("trained")}
    return [(r, after[key]) for r in facts.heldout_rows("base") if (key := (r["example"], r["index"])) in after]


def _tally(facts: Facts) -> str:
    """How often training turned a rollout right, and how often wrong: picked examples show neither."""
    pairs = _pairs(facts)
    gained = sum(b["correct"] < t["correct"] for b, t in pairs)
    lost = sum(b["correct"] > t["correct"] for b, t in pairs)
    return (
        f"These are picked, not typical: from {len(pairs)} pairs of held-out rollouts (same question, same number), one question a "
        "family where possible, first where the base was wrong and the trained policy right, "
        "then where it was right and saved the most leaf tokens. "
        f"Among all pairs {gained} turned from wrong to right and {lost} from right to wrong."
    )


# --- the page --------------------------------------------------------------------------------


def _page(facts: Facts, pictures: dict[str, Chart]) -> dict:
    return {
        "params": facts.params,
        "verdict": verdict(facts),
        "labels": facts.labels,
        "held": facts.summaries[facts.labels[-1]]["heldout"] if facts.labels else None,
        "seen": next((s for label in facts.labels if (s := facts.split(label, "seen"))), None),
        "tables": {split: table(facts, split) for split in ("heldout", "seen")},
        "charts": {name: page.view(chart) for name, chart in pictures.items()},
        "pairs": pick_pairs(facts),
        "tally": _tally(facts) if facts.compared else "",
        "settings": list(page.settings(facts.params)),
        "environment": facts.environment,
        **page.interactive_parts(pictures.values()),
    }
