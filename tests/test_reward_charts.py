"""Charts of rewards: their numbers, what their titles say, and that no difference is of colour alone."""

import dataclasses

import pytest

from rlmlib import reward_charts
from rlmlib.config import Reward
from rlmlib.drawing.panels import STYLES
from rlmlib.reward_explorer import GROUP
from rlmlib.scoring.length_penalties import PENALTIES, all_rewards
from rlmlib.scoring.reward import Outcome

LONG = [dataclasses.replace(o, cost=100 * o.cost) for o in GROUP]
WRONG = [dataclasses.replace(o, correct=False) for o in LONG]
RIGHT = [dataclasses.replace(o, correct=True) for o in LONG]


def test_a_panel_a_formula_has_a_bar_a_rollout_with_its_reward():
    chart = reward_charts.penalties(LONG)
    assert [p.title for p in chart.panels] == [p.title for p in PENALTIES.values()]
    for panel, values in zip(chart.panels, all_rewards(LONG).values(), strict=True):
        drawn = {x: y for mark in panel.marks for x, y in zip(mark.x, mark.y, strict=True)}
        assert [drawn[i] for i in range(4)] == values


def test_right_and_wrong_differ_by_hatch_and_by_name():
    panel = reward_charts.penalties(LONG).panels[0]
    right, wrong = panel.marks
    assert STYLES[right.style].hatch != STYLES[wrong.style].hatch
    assert list(panel.ticks.values()) == ["right\n2k", "wrong\n4k", "wrong\n8k", "right\n10k"]


def test_a_forced_rollout_is_named_so():
    assert reward_charts.penalties([Outcome(True, 5, True), Outcome(False, 6)]).panels[0].ticks[0] == "right\n5\nforced"


def test_the_frame_has_the_numbers_of_the_bars():
    frame = reward_charts.penalties(LONG).frame
    assert list(frame[frame["penalty"] == "gr3"]["reward"]) == PENALTIES["gr3"](LONG) and len(frame) == 4 * len(PENALTIES)


def test_a_config_reaches_the_studys_bars():
    drawn = reward_charts.penalties(LONG, Reward(beta_max=0.9)).frame.query("penalty == 'study'")["reward"]
    assert list(drawn) == pytest.approx([1, -0.075, -0.225, 0.7])


@pytest.mark.parametrize(
    ("group", "title"),
    [
        (LONG, "ShorterBetter puts a right rollout under a wrong one"),
        ([Outcome(True, 10), Outcome(True, 30_000), Outcome(False, 0)], "Linear and ShorterBetter put a right rollout under a wrong one"),
        (GROUP, "All 9 formulas keep right rollouts above wrong ones; from the cheapest to the dearest right one, the reward falls by "),
        (RIGHT, "From the cheapest to the dearest right one, the reward falls by 0.0008 (ALP) to 8 (ShorterBetter)"),
        (WRONG, "With no right rollout, 4 of 9 formulas still reward the group by cost"),
        ([Outcome(True, 0)], "No formula tells right rollouts apart in this group"),
        ([Outcome(True, 5), Outcome(False, 9)], "No formula tells right rollouts apart or puts one under a wrong one in this group"),
    ],
)
def test_the_title_says_what_the_numbers_say(group, title):
    assert reward_charts.penalties(group).title.startswith(title)


def test_small_numbers_above_bars_do_not_turn_to_zero():
    marks = reward_charts.penalties([Outcome(False, 100), Outcome(True, 200)]).panels[list(PENALTIES).index("alp")].marks
    assert marks[1].texts == ["-5e-06"]


GROUPS = {"mixed": LONG, "right": RIGHT, "wrong": WRONG, "one": [Outcome(True, 0)], "none": [Outcome(False, 0)]}


@pytest.mark.parametrize("draw", [reward_charts.penalties, reward_charts.reward_of_cost, reward_charts.reward_shape])
@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)
def test_every_group_is_drawn_in_both_forms(draw, group):
    chart = draw(group)
    assert chart.svg.startswith("<svg") and chart.figure.data and chart.reading.endswith(".")


def test_the_curves_pass_through_the_groups_own_rewards():
    chart = reward_charts.reward_of_cost(LONG)
    at = chart.frame[(chart.frame["tokens"] == 2000) & chart.frame["correct"]].set_index("penalty")["reward"]
    assert at.to_dict() == pytest.approx({name: values[0] for name, values in all_rewards(LONG).items()})


def test_the_curves_are_of_a_right_and_of_a_wrong_rollout_with_their_names_on_them():
    marks = reward_charts.reward_of_cost(LONG).panels[0].marks
    assert [mark.texts for mark in marks if mark.texts] == [["right"], ["wrong"]]
    assert len({STYLES[mark.style].dash for mark in marks}) == 2


@pytest.mark.parametrize(("group", "told"), [(LONG, "5 of 9 formulas make a wrong"), (RIGHT, "9 of 9 formulas make a right")])
def test_the_title_of_the_curves_counts_who_pays(group, told):
    assert reward_charts.reward_of_cost(group).title == f"In this group, {told} rollout pay for its tokens"
