"""The rewards of one group: tables, and sliders for JupyterLab. Static twins: the tables here and reward_charts.

The logic is in plain functions; the widgets only read sliders and show what those return.
"""

import html
from collections.abc import Sequence

from .config import Reward
from .reward_charts import penalties
from .scoring.length_penalties import PENALTIES, PROMISES, all_rewards
from .scoring.reward import STUDY, Outcome, advantages, beta, rewards

GROUP = (Outcome(True, 20), Outcome(False, 40), Outcome(False, 80), Outcome(True, 100))  # the study's worked example


def reward_rows(outcomes: Sequence[Outcome], config: Reward) -> list[dict]:
    """A row a rollout: what it did, what it earns, and its advantage."""
    earned = rewards(outcomes, config)
    return [
        {"rollout": i, "correct": o.correct, "forced": o.forced, "tokens": o.cost, "reward": r, "advantage": a}
        for i, (o, r, a) in enumerate(zip(outcomes, earned, advantages(earned), strict=True), 1)
    ]


def penalty_table(name: str, outcomes: Sequence[Outcome], **parameters):
    """A frame with a row a rollout: its reward and advantage under one formula, a name of PENALTIES."""
    import pandas as pd

    earned = PENALTIES[name](outcomes, **parameters)
    right = ["yes" if o.correct else "no" for o in outcomes]
    columns = {"right": right, "tokens": [o.cost for o in outcomes], "reward": earned, "advantage": advantages(earned)}
    return pd.DataFrame(columns).round(4)


def penalty_rows(outcomes: Sequence[Outcome], config: Reward = STUDY) -> list[dict]:
    """A row a formula: the reward and the advantage of each rollout. config: of the study's; the others at their defaults."""
    rows = []
    for name, earned in all_rewards(outcomes, config).items():
        row = {"formula": PENALTIES[name].title}
        row |= {f"reward {i}": r for i, r in enumerate(earned, 1)}
        rows.append(row | {f"advantage {i}": a for i, a in enumerate(advantages(earned), 1)})
    return rows


def promise_rows() -> list[dict]:
    """A row a formula: what it promises for every group, at its default values. The words are explained in PROMISES."""
    return [{"formula": p.title, **{name: "yes" if getattr(p.promises, name) else "no" for name in PROMISES}} for p in PENALTIES.values()]


def formula_rows() -> list[dict]:
    """A row a formula: its equation, the default values of its parameters and its source."""
    return [{"formula": p.title, "reward": p.equation, "defaults": _defaults(p.defaults), "source": p.source} for p in PENALTIES.values()]


def _defaults(values: dict[str, object]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in values.items() if not isinstance(value, Reward)) or "the params file"


def beside(outcomes: Sequence[Outcome], told: Sequence[float], config: Reward = STUDY):
    """A table of a group's rewards beside the values that the write-up gives for it."""
    import pandas as pd

    table = pd.DataFrame(reward_rows(outcomes, config)).drop(columns="advantage")
    return table.assign(told=told).rename(columns={"told": "write-up"}).round(4)


def reward_table(outcomes: Sequence[Outcome], config: Reward) -> str:
    """The rows as an HTML table, with the group's solve rate and the weight of cost above it."""
    p = sum(o.correct for o in outcomes) / len(outcomes)
    return f"<p>p = {p:g}, beta(p) = {beta(p, config):.4g}, {config.scope}</p>{_table(reward_rows(outcomes, config))}"


def _table(rows: Sequence[dict]) -> str:
    head = "".join(f"<th>{html.escape(key)}</th>" for key in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row.values()) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _cell(value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4f}" if isinstance(value, float) else html.escape(str(value))


def reward_explorer(group: Sequence[Outcome] = GROUP, config: Reward | None = None):
    """Sliders over a group and the reward's parameters; the study's table, that of all formulas and their bars follow."""
    import ipywidgets as w

    knobs = _knobs(config or Reward())
    rollouts = [_rollout(outcome, max(200, 2 * int(max(o.cost for o in group)))) for outcome in group]
    table, compared, bars = w.HTML(), w.HTML(), w.HTML()

    def refresh(_=None):
        outcomes = [Outcome(right.value, tokens.value, forced.value) for right, forced, tokens in rollouts]
        chosen = Reward(**{name: knob.value for name, knob in knobs.items()})
        table.value = reward_table(outcomes, chosen)
        compared.value = _table(penalty_rows(outcomes, chosen))
        bars.value = penalties(outcomes, chosen).svg

    for control in [*knobs.values(), *(c for row in rollouts for c in row)]:
        control.observe(refresh, "value")
    refresh()
    controls = w.HBox([w.VBox(list(knobs.values())), w.VBox([w.HBox(row) for row in rollouts])])
    return w.VBox([controls, w.HBox([table, compared], layout=w.Layout(flex_flow="row wrap")), bars])


def _knobs(config: Reward) -> dict:
    """A control a parameter of the reward."""
    import ipywidgets as w

    ranges = {"beta_max": (0, 1, 0.01), "gamma": (0.1, 4, 0.1), "p0": (0, 0.95, 0.05), "forced_penalty": (0, 1, 0.05)}
    knobs = {"scope": w.Dropdown(options=["all_rollouts", "correct_only"], value=config.scope, description="scope")}
    for name, (low, high, step) in ranges.items():
        knobs[name] = w.FloatSlider(value=getattr(config, name), min=low, max=high, step=step, description=name, **_wide())
    return knobs


def _rollout(outcome: Outcome, most: int) -> tuple:
    """The controls of one rollout: right, forced, and tokens up to `most`."""
    import ipywidgets as w

    box = {"indent": False, "layout": w.Layout(width="80px")}
    return (
        w.Checkbox(value=outcome.correct, description="right", **box),
        w.Checkbox(value=outcome.forced, description="forced", **box),
        w.IntSlider(value=int(outcome.cost), max=most, step=max(1, most // 200), description="tokens", **_wide()),
    )


def _wide() -> dict:
    """Options of a slider that tells its value when it is let go: a redraw for every pixel would lag behind the hand."""
    import ipywidgets as w

    return {"layout": w.Layout(width="320px"), "style": {"description_width": "100px"}, "continuous_update": False}
