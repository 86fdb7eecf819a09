"""The reward of one group with sliders, for JupyterLab. Static twin: reward_charts.

The logic is in plain functions; the widgets only read sliders and show what those return.
"""

import html
from collections.abc import Sequence

from .config import Reward
from .scoring.reward import STUDY, Outcome, advantages, beta, rewards

GROUP = (Outcome(True, 20), Outcome(False, 40), Outcome(False, 80), Outcome(True, 100))  # the study's worked example


def reward_rows(outcomes: Sequence[Outcome], config: Reward) -> list[dict]:
    """A row a rollout: what it did, what it earns, and its advantage."""
    earned = rewards(outcomes, config)
    return [
        {"rollout": i, "correct": o.correct, "forced": o.forced, "tokens": o.cost, "reward": r, "advantage": a}
        for i, (o, r, a) in enumerate(zip(outcomes, earned, advantages(earned), strict=True), 1)
    ]


def beside(outcomes: Sequence[Outcome], told: Sequence[float], config: Reward = STUDY):
    """A table of a group's rewards beside the values that the write-up gives for it."""
    import pandas as pd

    table = pd.DataFrame(reward_rows(outcomes, config)).drop(columns="advantage")
    return table.assign(told=told).rename(columns={"told": "write-up"}).round(4)


def reward_table(outcomes: Sequence[Outcome], config: Reward) -> str:
    """The rows as an HTML table, with the group's solve rate and the weight of cost above it."""
    p = sum(o.correct for o in outcomes) / len(outcomes)
    rows = reward_rows(outcomes, config)
    head = "".join(f"<th>{html.escape(key)}</th>" for key in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row.values()) + "</tr>" for row in rows)
    return f"<p>p = {p:g}, beta(p) = {beta(p, config):.4g}, {config.scope}</p><table><tr>{head}</tr>{body}</table>"


def _cell(value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4f}" if isinstance(value, float) else html.escape(str(value))


def reward_explorer(group: Sequence[Outcome] = GROUP, config: Reward | None = None):
    """Sliders over a group and the reward's parameters; the table follows. Static twin: charts.reward_shape."""
    import ipywidgets as w

    config = config or Reward()
    wide = {"layout": w.Layout(width="320px"), "style": {"description_width": "80px"}, "continuous_update": False}
    knobs = {
        "scope": w.Dropdown(options=["all_rollouts", "correct_only"], value=config.scope, description="scope"),
        "beta_max": w.FloatSlider(value=config.beta_max, min=0, max=1, step=0.01, description="beta_max", **wide),
        "gamma": w.FloatSlider(value=config.gamma, min=0.1, max=4, step=0.1, description="gamma", **wide),
        "p0": w.FloatSlider(value=config.p0, min=0, max=0.95, step=0.05, description="p0", **wide),
    }
    rollouts = [
        (
            w.Checkbox(value=o.correct, description="right", indent=False, layout=w.Layout(width="80px")),
            w.Checkbox(value=o.forced, description="forced", indent=False, layout=w.Layout(width="80px")),
            w.IntSlider(value=int(o.cost), min=0, max=max(200, int(o.cost)), description="tokens", **wide),
        )
        for o in group
    ]
    table = w.HTML()

    def refresh(_=None):
        outcomes = [Outcome(right.value, tokens.value, forced.value) for right, forced, tokens in rollouts]
        table.value = reward_table(outcomes, Reward(**{name: knob.value for name, knob in knobs.items()}))

    for control in [*knobs.values(), *(c for row in rollouts for c in row)]:
        control.observe(refresh, "value")
    refresh()
    return w.VBox([w.HBox([w.VBox(list(knobs.values())), w.VBox([w.HBox(row) for row in rollouts])]), table])
