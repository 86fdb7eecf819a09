"""Charts of rewards: the study's for one group, and the penalties of the literature side by side."""

from collections.abc import Sequence
from dataclasses import replace

from .charts import Chart, count
from .config import Reward
from .drawing.axes import short
from .drawing.panels import Mark, Panel
from .scoring.length_penalties import PENALTIES, all_rewards
from .scoring.reward import STUDY, Outcome, beta, rewards

BETA_POINTS = (0, 0.25, 0.5, 0.75, 1)
COLUMNS = 3  # panels in a row
CURVE_POINTS = 300  # of a curve of reward over cost
SAME = 1e-9  # rewards that are no further apart are one


def reward_shape(outcomes: Sequence[Outcome], config: Reward = STUDY) -> Chart:
    """The weight of cost over the group's solve rate, and the rewards of one group."""
    import pandas as pd

    p = sum(o.correct for o in outcomes) / len(outcomes)
    values = rewards(outcomes, config)
    names = [f"{'right' if o.correct else 'wrong'}{', forced' if o.forced else ''}\n{count(o.cost)} tokens" for o in outcomes]
    rates = [i / 100 for i in range(101)]
    curve = Mark("line", rates, [beta(r, config) for r in rates], "trained")
    weights = [beta(r, config) for r in BETA_POINTS]
    marked = Mark("points", BETA_POINTS, weights, "trained", texts=[f"{w:.3g}" for w in weights])
    here = Mark("points", [p], [beta(p, config)], "base", "this group", hollow=True, size=19)
    bars = Mark("bars", range(len(values)), values, "trained", texts=[f"{v:.4g}" for v in values], width=0.6)
    panels = [
        Panel("beta(p)", "p, share of the group that is right", "weight of cost", [curve, marked, here], headroom=0.1),
        Panel("Rewards of the group", "", "reward", [bars], ticks=dict(enumerate(names)), headroom=0.1),
    ]
    rows = [{"part": "beta", "at": f"{r:g}", "value": weight} for r, weight in zip(BETA_POINTS, weights, strict=True)]
    rows += [{"part": "reward", "at": name.replace("\n", ", "), "value": value} for name, value in zip(names, values, strict=True)]
    title = f"{sum(o.correct for o in outcomes)} of {len(outcomes)} right: cost weighs {beta(p, config):.3g}"
    reading = (
        f"Left: cost is free up to a solve rate of {config.p0:g} and weighs at most {config.beta_max:g}. "
        f"Right: what each rollout of this group earns (scope {config.scope})."
    )
    return Chart("reward_shape", title, reading, pd.DataFrame(rows), panels, columns=2)


def penalties(group: Sequence[Outcome], config: Reward = STUDY) -> Chart:
    """A panel a formula with a bar a rollout. config: of the study's formula. The frame has a row a formula and rollout."""
    import pandas as pd

    found = all_rewards(group, config)
    panels = [_bars(PENALTIES[name].title, group, values) for name, values in found.items()]
    frame = pd.DataFrame(
        {"penalty": name, "rollout": i, "correct": o.correct, "forced": o.forced, "tokens": o.cost, "reward": value}
        for name, values in found.items()
        for i, (o, value) in enumerate(zip(group, values, strict=True), 1)
    )
    reading = (
        f"A panel a formula, all but the study's at their default values; a bar for each of the same {len(group)} rollouts, with its "
        "tokens under it. Wrong ones are striped. Rewards have their own scale in each panel: what trains is the difference within one."
    )
    return Chart("penalties", _finding(group, found), reading, frame, panels, COLUMNS)


def _bars(title: str, group: Sequence[Outcome], values: Sequence[float]) -> Panel:
    marks = []
    for style, correct in (("trained", True), ("base", False)):
        places = [i for i, o in enumerate(group) if o.correct == correct]
        heights = [values[i] for i in places]
        if places:
            marks.append(Mark("bars", places, heights, style, texts=[_number(h) for h in heights], width=0.62))
    names = [f"{'right' if o.correct else 'wrong'}\n{short(o.cost)}{chr(10) + 'forced' if o.forced else ''}" for o in group]
    return Panel(title, "", "reward", marks, ticks=dict(enumerate(names)), headroom=0.16)


def _number(value: float) -> str:
    """For the room above a narrow bar; what would round to zero keeps its size."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.0e}" if 0 < abs(value) < 5e-5 else f"{round(value, 4):.4g}"


def _finding(group: Sequence[Outcome], found: dict[str, list[float]]) -> str:
    """What the rewards say: wrong rollouts above right ones first, then what cost takes from right ones, or from wrong ones."""
    right = [i for i, o in enumerate(group) if o.correct]
    wrong = [i for i, o in enumerate(group) if not o.correct]
    if not right:
        return f"With no right rollout, {_told(found)} of {len(found)} formulas still reward the group by cost"
    below = [PENALTIES[n].title for n, values in found.items() if wrong and min(values[i] for i in right) < max(values[i] for i in wrong)]
    if below:
        return f"{_names(below)} put{'s' * (len(below) == 1)} a right rollout under a wrong one"
    cheap, dear = min(right, key=lambda i: group[i].cost), max(right, key=lambda i: group[i].cost)
    falls = {PENALTIES[name].title: values[cheap] - values[dear] for name, values in found.items()}
    least, most = min(falls, key=falls.get), max(falls, key=falls.get)
    if max(map(abs, falls.values())) < SAME:
        return f"No formula tells right rollouts apart{' or puts one under a wrong one' if wrong else ''} in this group"
    kept = f"All {len(found)} formulas keep right rollouts above wrong ones; from" if wrong else "From"
    return (
        f"{kept} the cheapest to the dearest right one, the reward falls by {_number(falls[least])} ({least}) "
        f"to {_number(falls[most])} ({most})"
    )


def _told(found: dict[str, list[float]]) -> int:
    """How many formulas give these rollouts different rewards."""
    return sum(max(values) - min(values) > SAME for values in found.values())


def _names(titles: Sequence[str]) -> str:
    return " and ".join([", ".join(titles[:-1]), titles[-1]]) if len(titles) > 1 else titles[0]


def reward_of_cost(group: Sequence[Outcome], config: Reward = STUDY) -> Chart:
    """A panel a formula: what the first right and the first wrong rollout earn over their own cost; the others stay as they are.

    config: of the study's formula. The frame has a row a formula, rollout and cost.
    """
    import pandas as pd

    top = 1.5 * max(o.cost for o in group) or 1.0
    at = [top * i / CURVE_POINTS for i in range(CURVE_POINTS + 1)]
    first = {o.correct: i for i, o in reversed(list(enumerate(group)))}
    curves = {correct: _curve(group, config, at, first[correct]) for correct in (True, False) if correct in first}
    panels = [_lines(name, at, curves, number) for number, name in enumerate(PENALTIES)]
    frame = pd.DataFrame(
        {"penalty": name, "correct": correct, "tokens": cost, "reward": value}
        for correct, found in curves.items()
        for name, values in found.items()
        for cost, value in zip(at, values, strict=True)
    )
    title = f"In this group, {_told(curves[min(curves)])} of {len(PENALTIES)} formulas make a {'right' if min(curves) else 'wrong'} rollout"
    costs = ", ".join(f"{'right' if o.correct else 'wrong'} at {count(o.cost)}" for o in group)
    reading = (
        f"What the first right and the first wrong of {len(group)} rollouts ({costs} tokens) earn over their own cost, while the others "
        "stay; all formulas but the study's at their default values. Where a line is flat, cost is not felt. Each panel has its own scale."
    )
    return Chart("reward_of_cost", f"{title} pay for its tokens", reading, frame, panels, COLUMNS)


def _lines(name: str, at: Sequence[float], curves: dict[bool, dict[str, list[float]]], number: int) -> Panel:
    marks = []
    for correct, found in curves.items():
        style, label = ("trained", "right") if correct else ("base", "wrong")
        line = found[name]
        rises = line[len(line) // 10] > line[0]  # then the name stands under the line, not on it
        marks += [Mark("line", at, line, style), Mark("points", at[:1], line[:1], style, texts=[label], size=6, below=rises)]
    ticks = {at[-1] * i / 3: short(at[-1] * i / 3) for i in range(4)}
    below = "tokens of that rollout" if number >= len(PENALTIES) - COLUMNS else ""
    return Panel(PENALTIES[name].title, below, "reward", marks, ticks=ticks, headroom=0.16)


def _curve(group: Sequence[Outcome], config: Reward, at: Sequence[float], place: int) -> dict[str, list[float]]:
    """Rewards of the rollout at `place` by formula, at each of these costs."""
    found = [all_rewards([*group[:place], replace(group[place], cost=cost), *group[place + 1 :]], config) for cost in at]
    return {name: [values[name][place] for values in found] for name in PENALTIES}
