"""The explorer of rewards: its rows and tables, and that its sliders are heard."""

import pytest

from rlmlib import config
from rlmlib.reward_explorer import GROUP, reward_explorer, reward_rows
from rlmlib.scoring.reward import Outcome


def test_reward_rows_give_the_studys_worked_example():
    assert [r["reward"] for r in reward_rows(GROUP, config.Reward())] == pytest.approx([1, -0.0125, -0.0375, 0.95])


def test_advantages_of_the_rows_sum_to_zero():
    rows = reward_rows([Outcome(True, 1), Outcome(False, 5), Outcome(False, 9, True)], config.Reward())
    assert sum(r["advantage"] for r in rows) == pytest.approx(0)


def test_moving_a_slider_recomputes_the_table():
    explorer = reward_explorer()
    table = explorer.children[1]
    before = table.value
    beta_max = explorer.children[0].children[0].children[1]
    beta_max.value = 0.9
    assert table.value != before and "0.7000" in table.value  # dearest right answer: 1 - 0.9 / 3
