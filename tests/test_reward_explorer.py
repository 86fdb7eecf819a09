"""The explorer of rewards: its rows and tables, and that its sliders are heard."""

import re
import subprocess
import sys
from dataclasses import asdict
from types import SimpleNamespace

import pytest

from rlmlib import config
from rlmlib.notebook import ROOT
from rlmlib.reward_explorer import (
    GROUP,
    beside,
    formula_rows,
    penalty_rows,
    penalty_table,
    promise_rows,
    reward_explorer,
    reward_rows,
    reward_table,
)
from rlmlib.scoring.length_penalties import PENALTIES, all_rewards
from rlmlib.scoring.reward import STUDY, Outcome


def test_reward_rows_give_the_studys_worked_example():
    assert [r["reward"] for r in reward_rows(GROUP, config.Reward())] == pytest.approx([1, -0.0125, -0.0375, 0.95])


def test_advantages_of_the_rows_sum_to_zero():
    rows = reward_rows([Outcome(True, 1), Outcome(False, 5), Outcome(False, 9, True)], config.Reward())
    assert sum(r["advantage"] for r in rows) == pytest.approx(0)


def test_the_write_ups_values_stand_beside_ours():
    table = beside(GROUP, [1, -0.0125, -0.0375, 0.95])
    assert list(table["reward"]) == list(table["write-up"])


def test_the_table_tells_solve_rate_weight_and_scope():
    assert reward_table(GROUP, STUDY).startswith("<p>p = 0.5, beta(p) = 0.05, all_rollouts</p>")


def test_a_row_a_formula_holds_its_rewards_and_advantages():
    rows = {row["formula"]: row for row in penalty_rows(GROUP)}
    for name, values in all_rewards(GROUP).items():
        row = rows[PENALTIES[name].title]
        assert [row[f"reward {i}"] for i in (1, 2, 3, 4)] == values
        assert sum(row[f"advantage {i}"] for i in (1, 2, 3, 4)) == pytest.approx(0)


def test_one_formula_is_shown_with_the_parameters_it_is_given():
    table = penalty_table("linear", [Outcome(True, 1000), Outcome(False, 2000)], per_1k=0.1)
    assert list(table["reward"]) == pytest.approx([0.9, -0.2]) and list(table["advantage"]) == pytest.approx([0.55, -0.55])


def test_promises_are_those_of_the_registry():
    for row, penalty in zip(promise_rows(), PENALTIES.values(), strict=True):
        held = {word: answer == "yes" for word, answer in row.items() if word != "formula"}
        assert held == asdict(penalty.promises)


def test_formulas_are_listed_with_their_defaults():
    listed = {row["formula"]: row["defaults"] for row in formula_rows()}
    assert listed["ShorterBetter"] == "alpha 2, beta 0.001" and listed["ALP"] == "beta 1e-07" and len(listed) == len(PENALTIES)


def test_importing_the_explorer_loads_no_heavy_package():
    code = "import sys, rlmlib.reward_explorer;print(sorted({'plotly', 'matplotlib', 'pandas', 'torch', 'ipywidgets'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout == "[]\n"


# --- widgets: their values are set here as a hand would set them


class Explorer:
    """An explorer with names for its parts."""

    def __init__(self, *arguments):
        controls, tables, self.bars = reward_explorer(*arguments).children
        self.study, self.all = tables.children
        self.knobs = {knob.description: knob for knob in controls.children[0].children}
        self.rollouts = [{c.description: c for c in row.children} for row in controls.children[1].children]

    def shown(self) -> tuple[str, str, str]:
        return self.study.value, self.all.value, self.bars.value


def cells(table: str) -> list[list[str]]:
    return [re.findall(r"<td>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", table)[1:]]


@pytest.fixture
def undrawn(monkeypatch):
    """Without the bars, most of the time of a redraw, for tests that look at the tables."""
    monkeypatch.setattr("rlmlib.reward_explorer.penalties", lambda outcomes, config: SimpleNamespace(svg=""))


def test_moving_a_slider_recomputes_the_study(undrawn):
    explorer = Explorer()
    explorer.knobs["beta_max"].value = 0.9
    assert "0.7000" in explorer.study.value  # dearest right answer: 1 - 0.9 / 3


def test_the_explorer_begins_with_the_group_and_the_parameters_it_is_given(undrawn):
    explorer = Explorer([Outcome(False, 7, True), Outcome(True, 3000)], config.Reward(gamma=2, scope="correct_only"))
    assert [(r["right"].value, r["forced"].value, r["tokens"].value) for r in explorer.rollouts] == [(False, True, 7), (True, False, 3000)]
    assert explorer.knobs["gamma"].value == 2 and explorer.knobs["scope"].value == "correct_only"


def test_every_parameter_changes_the_rewards_of_the_study(undrawn):
    explorer = Explorer([Outcome(True, 20, True), Outcome(True, 60), Outcome(True, 100), Outcome(False, 40)])
    for name, value in {"beta_max": 0.5, "gamma": 3, "p0": 0.5, "forced_penalty": 0.9, "scope": "correct_only"}.items():
        before = cells(explorer.study.value)
        explorer.knobs[name].value = value
        assert cells(explorer.study.value) != before, name


@pytest.mark.parametrize(("control", "value"), [("tokens", 60), ("right", False), ("forced", True)])
def test_a_change_of_a_rollout_reaches_both_tables_and_the_bars(control, value):
    explorer = Explorer()
    before = explorer.shown()
    explorer.rollouts[3][control].value = value
    assert all(new != old for new, old in zip(explorer.shown(), before, strict=True))


def test_the_table_of_all_formulas_holds_the_values_of_the_current_group(undrawn):
    explorer = Explorer()
    explorer.rollouts[1]["right"].value = True
    rows = cells(explorer.all.value)
    expected = all_rewards([GROUP[0], Outcome(True, 40), *GROUP[2:]])
    assert [row[0] for row in rows] == [p.title for p in PENALTIES.values()]
    assert [row[1:5] for row in rows] == [[f"{v:.4f}" for v in values] for values in expected.values()]


def test_tokens_can_be_raised_to_twice_the_dearest_rollout(undrawn):
    explorer = Explorer([Outcome(True, 2000), Outcome(False, 9000)])
    assert {row["tokens"].max for row in explorer.rollouts} == {18_000}


def test_the_bars_are_one_svg_with_a_panel_a_formula():
    drawn = Explorer().bars.value
    assert drawn.startswith("<svg") and all(f">{p.title}<" in drawn for p in PENALTIES.values())


def test_a_group_without_a_right_rollout_is_shown_too():
    explorer = Explorer()
    for row in explorer.rollouts:
        row["right"].value = False
    assert explorer.study.value.startswith("<p>p = 0,") and "With no right rollout" in explorer.bars.value
