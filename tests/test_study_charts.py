"""Charts of a study: their titles follow the numbers, their numbers are in their frames, and nothing missing breaks them."""

import numpy as np
import pandas as pd
import pytest
import study_support as study
from hypothesis import given
from hypothesis import strategies as st

from rlmlib.study.behaviour_charts import behaviour_phases, leaf_token_tails, shares, tail
from rlmlib.study.cost_charts import by_family, cost_accuracy_of_groups, differences, pareto_front, pass_at_k_of_groups
from rlmlib.study.difference_charts import verdict
from rlmlib.study.grid_charts import grid_runs, lora_grid
from rlmlib.study.looks import short_name, styles
from rlmlib.study.post_mortem_charts import post_mortem, post_mortem_table, short_reason
from rlmlib.study.training_charts import depth_two, dynamics_of_groups

NONE = pd.DataFrame()
MAKERS = {  # chart: what draws it, its frames
    "study_cost_accuracy": (cost_accuracy_of_groups, ("groups",)),
    "study_pass_at_k": (pass_at_k_of_groups, ("groups",)),
    "study_differences": (differences, ("differences",)),
    "study_families": (by_family, ("families",)),
    "study_dynamics": (dynamics_of_groups, ("steps",)),
    "study_depth": (depth_two, ("steps", "groups")),
    "study_post_mortem": (post_mortem, ("steps", "runs")),
    "study_lora_grid": (lora_grid, ("runs",)),
    "study_phases": (behaviour_phases, ("phases",)),
    "study_leaf_tails": (leaf_token_tails, ("evaluations",)),
}


@pytest.fixture(scope="module")
def frames() -> dict[str, pd.DataFrame]:
    return {name: getattr(study, name)() for name in ("groups", "runs", "steps", "phases", "evaluations", "differences", "families")}


@pytest.fixture(scope="module")
def charts(frames) -> dict:
    return {name: make(*(frames[n] for n in needs)) for name, (make, needs) in MAKERS.items()}


def only(frame: pd.DataFrame, *groups: str) -> pd.DataFrame:
    return frame[frame["group"].isin(groups)]


def drawn(chart) -> None:
    assert chart.svg.startswith("<svg") and chart.figure.layout.height and chart.title and chart.reading.endswith(".")


def with_group(groups: pd.DataFrame, group: str, **values) -> pd.DataFrame:
    """The same groups with other values of one."""
    changed = groups.copy()
    for column, value in values.items():
        changed.loc[changed["group"] == group, column] = value
    return changed


# --- every chart -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAKERS)
def test_a_chart_has_its_name_a_finding_and_a_reading(charts, name):
    assert charts[name].name == name
    drawn(charts[name])


@pytest.mark.parametrize("name", MAKERS)
def test_a_reading_tells_how_many_there_are_of_something(charts, name):
    assert any(character.isdigit() for character in charts[name].reading) or name == "study_families"


@pytest.mark.parametrize("name", MAKERS)
def test_a_frame_has_no_lists_and_survives_a_csv(charts, name, tmp_path):
    charts[name].frame.to_csv(tmp_path / "numbers.csv", index=False)
    again = pd.read_csv(tmp_path / "numbers.csv", keep_default_na=False, na_values=[""])
    assert len(again) == len(charts[name].frame) > 0
    assert not any(isinstance(value, (list, tuple)) for value in charts[name].frame.to_numpy(dtype=object).ravel())


@pytest.mark.parametrize(("name", "scale"), [("study_cost_accuracy", 1), ("study_pass_at_k", 1), ("study_differences", 100)])
def test_every_point_is_in_the_frame(charts, name, scale):
    known = charts[name].frame.select_dtypes("number").to_numpy().ravel()
    known = np.concatenate([known, scale * known, np.arange(-20.0, 20.0)])  # rows of categories are whole numbers
    named = [mark for panel in charts[name].panels for mark in panel.marks if mark.kind == "points" and not mark.light]
    missed = [v for mark in named for v in (*mark.x, *mark.y) if not np.isclose(known, v, rtol=1e-6).any()]
    assert named and missed == []


@pytest.mark.parametrize("name", MAKERS)
def test_no_frames_give_no_chart(frames, name):
    make, needs = MAKERS[name]
    assert make(*[NONE for _ in needs]) is None
    assert make(*[frames[n].head(0) for n in needs]) is None


@pytest.mark.parametrize("name", ["study_cost_accuracy", "study_pass_at_k", "study_dynamics", "study_phases", "study_leaf_tails"])
def test_a_group_alone_is_drawn_and_named(frames, name):
    make, needs = MAKERS[name]
    chart = make(*(only(frames[n], "lora") for n in needs))
    drawn(chart)
    assert "LoRA" in chart.title and "full" not in chart.title


@pytest.mark.parametrize("name", ["study_dynamics", "study_phases", "study_leaf_tails", "study_depth"])
def test_one_seed_is_drawn_and_told(frames, name):
    make, needs = MAKERS[name]
    chart = make(*(frames[n][frames[n]["seed"] == 42] if "seed" in frames[n] else frames[n] for n in needs))
    drawn(chart)
    assert "one seed" in chart.reading + " ".join(panel.title for panel in chart.panels)


@pytest.mark.parametrize("name", ["study_dynamics", "study_phases", "study_depth", "study_post_mortem"])
def test_one_step_is_drawn(frames, name):
    make, needs = MAKERS[name]
    drawn(make(*(frames[n][frames[n]["step"] == 0] if "step" in frames[n] else frames[n] for n in needs)))


def test_groups_of_unknown_names_have_styles_of_their_own():
    found = styles(["base", "a", "lora", "b"])
    assert found["base"] == "base" and found["lora"] == "trained" and len(set(found.values())) == 4


@pytest.mark.parametrize(
    ("label", "name"), [("rank16 lr0.001", "r16, lr 1e-3"), ("rank 4, lr 5e-05", "r4, lr 5e-5"), ("no penalty", "no penalty")]
)
def test_labels_of_grid_points_become_short(label, name):
    assert short_name(label) == name


# --- the Pareto front ------------------------------------------------------------------------

POINTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12)  # small numbers, so that many are equal


def dominates(a: tuple, b: tuple) -> bool:
    return a[0] <= b[0] and a[1] >= b[1] and a != b


def front_of(points: list[tuple]) -> list[int]:
    return pareto_front([float(t) for t, _ in points], [float(r) for _, r in points])


@given(POINTS)
def test_the_front_is_exactly_what_nothing_dominates(points):
    free = {i for i, a in enumerate(points) if not any(dominates(b, a) for b in points)}
    found = front_of(points)
    assert set(found) == free and len(found) == len(free)


@given(POINTS)
def test_along_the_front_more_tokens_buy_more_right_answers(points):
    found = [points[i] for i in front_of(points)]
    assert found == sorted(found)


@given(POINTS, st.randoms())
def test_the_order_of_points_does_not_matter(points, random):
    mixed = points.copy()
    random.shuffle(mixed)
    assert [points[i] for i in front_of(points)] == [mixed[i] for i in front_of(mixed)]


@given(POINTS.filter(bool), st.data())
def test_a_dominated_point_changes_nothing(points, data):
    tokens, right = data.draw(st.sampled_from(points))
    assert front_of([*points, (tokens + 1, right)]) == front_of(points)


@given(POINTS)
def test_points_without_a_number_are_not_on_the_front(points):
    tokens, right = [float("nan"), *(float(t) for t, _ in points), 0.0], [9.0, *(float(r) for _, r in points), float("nan")]
    assert pareto_front(tokens, right) == [i + 1 for i in front_of(points)]


# --- accuracy against cost -------------------------------------------------------------------


def test_the_title_names_the_group_that_is_right_most_often(frames):
    groups = frames["groups"]
    assert cost_accuracy_of_groups(groups).title.startswith("Shown is right most often, 58 % for 300 leaf tokens")
    better = with_group(groups, "full", pass_at_1=0.7)
    assert cost_accuracy_of_groups(better).title.startswith("Full is right most often, 70 % for 95 leaf tokens")


def test_training_that_does_not_help_is_said_so(frames):
    worse = with_group(frames["groups"], "base", pass_at_1=0.9)
    assert "No trained group is right more often than the untrained policy (90 %)" in cost_accuracy_of_groups(worse).title


def test_a_level_without_tokens_is_a_line(frames):
    marks = cost_accuracy_of_groups(frames["groups"]).panels[0].marks
    assert [mark.end for mark in marks if mark.kind == "horizontal"] == ["leaf alone"]


def test_the_leaf_alone_with_tokens_is_a_point_of_its_own_look(frames):
    spent = {f"leaf_tokens_mean{part}": value for part, value in (("", 900.0), ("_low", 800.0), ("_high", 1000.0))}
    marks = cost_accuracy_of_groups(with_group(frames["groups"], "plain", **spent)).panels[0].marks
    assert "horizontal" not in {mark.kind for mark in marks}
    assert {mark.style for mark in marks if mark.texts == ["leaf alone"]} == {"alone"}


def test_beaten_groups_are_hollow_and_those_on_the_front_are_not(frames):
    chart = cost_accuracy_of_groups(frames["groups"])
    looks = {mark.texts[0]: mark.hollow for mark in chart.panels[0].marks if mark.texts}
    front = set(chart.frame.loc[chart.frame["on_front"], "label"])
    assert front == {"full", "shown"} and not any(looks[label] for label in (*front, "untrained"))
    assert looks["no penalty"] and looks["LoRA"] and looks["r4, lr 1e-2"]


def test_every_group_is_named_in_the_first_panel(frames):
    named = {mark.texts[0] for mark in cost_accuracy_of_groups(frames["groups"]).panels[0].marks if mark.texts}
    assert len(named) == frames["groups"]["leaf_tokens_mean"].notna().sum()


def test_groups_with_the_same_numbers_share_one_text(frames):
    twin = frames["groups"][frames["groups"]["group"] == "shown"].assign(group="twin", label="its twin")
    texts = [mark.texts[0] for mark in cost_accuracy_of_groups(pd.concat([frames["groups"], twin])).panels[0].marks if mark.texts]
    assert "shown\nits twin" in texts and texts.count("") == 1


def test_zero_tokens_have_a_place_on_the_log_axis(frames):
    none = {f"leaf_tokens_mean{part}": 0.0 for part in ("", "_low", "_high")}
    chart = cost_accuracy_of_groups(with_group(frames["groups"], "full", **none))
    zero = next(tick for tick, name in chart.panels[0].ticks.items() if name == "0")
    assert [mark.x for mark in chart.panels[0].marks if mark.texts == ["full"]] == [[zero]]
    drawn(chart)


def test_groups_that_all_spend_nothing_are_drawn(frames):
    drawn(cost_accuracy_of_groups(frames["groups"].assign(**{f"leaf_tokens_mean{part}": 0.0 for part in ("", "_low", "_high")})))


def test_only_pass_at_1_gives_one_panel(frames):
    columns = [c for c in frames["groups"] if not c.startswith("pass_at_") or c.startswith("pass_at_1") and "10" not in c]
    assert [panel.title for panel in cost_accuracy_of_groups(frames["groups"][columns]).panels] == ["pass@1"]


# --- pass@k ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "words"),
    [
        (0.95, "LoRA leads untrained by 37 points at k = 1 but trails by 23 at k = 10"),
        (0.60, "LoRA leads untrained by 37 points at k = 1 and by 12 at k = 10"),
        (0.72, "LoRA leads untrained by 37 points at k = 1 but is level at k = 10"),
    ],
)
def test_the_title_of_pass_at_k_follows_both_ends(frames, last, words):
    assert pass_at_k_of_groups(with_group(frames["groups"], "base", pass_at_10=last)).title == words


def test_one_attempt_has_no_curve(frames):
    assert pass_at_k_of_groups(only(frames["groups"], "plain")) is None


def test_curves_have_their_names_at_their_ends(charts):
    marks = charts["study_pass_at_k"].panels[0].marks
    assert [mark.end for mark in marks if mark.end] == ["untrained", "LoRA", "no penalty", "full"]


# --- differences and families ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("measure", "low", "high", "found"),
    [
        ("right", 0.01, 0.2, "better"),
        ("right", -0.2, -0.01, "worse"),
        ("right", -0.1, 0.1, "unclear"),
        ("tokens", 0.1, 0.9, "better"),
        ("tokens", 1.1, 2.0, "worse"),
        ("tokens", 0.9, 1.1, "unclear"),
    ],
)
def test_the_verdict_is_the_interval_against_no_difference(measure, low, high, found):
    assert verdict({"measure": measure, "low": low, "high": high}) == found


def test_the_title_of_differences_counts_verdicts(frames):
    assert differences(frames["differences"]).title == (
        "Of 10 comparisons, 7 gain right answers and 1 loses some; 9 save leaf tokens and 1 spends more"
    )
    unclear = frames["differences"].assign(low=-1.0, high=2.0)
    assert differences(unclear).title.endswith("none clearly changes right answers; none clearly changes leaf tokens")


def test_unclear_differences_are_hollow(charts):
    looks = {mark.label: mark.hollow for panel in charts["study_differences"].panels for mark in panel.marks if mark.label}
    assert looks == {"better": False, "worse": False, "unclear": True}


def test_ratios_without_an_end_or_a_value_are_drawn_or_told(frames):
    frame = frames["differences"].copy()
    rows = frame.index[frame["measure"] == "tokens"]
    frame.loc[rows[0], ["value", "low", "high"]] = np.inf
    frame.loc[rows[1], "high"] = np.inf
    frame.loc[rows[2], ["value", "low"]] = 0.0
    frame.at[rows[3], "seed_values"] = [np.inf, 0.0, 1.0]
    chart = differences(frame)
    drawn(chart)
    x = [v for mark in chart.panels[1].marks for part in (mark.x, mark.x_low, mark.x_high) if part is not None for v in part]
    assert all(np.isfinite(v) and v > 0 for v in x)
    assert ["from zero tokens: no ratio"] in [mark.texts for mark in chart.panels[1].marks]


def test_one_measure_gives_one_panel(frames):
    kept = frames["differences"][frames["differences"]["measure"] == "right"].drop(columns="seed_values")
    assert len(differences(kept).panels) == 1


def test_the_family_with_the_largest_gain_is_named(frames):
    families = frames["families"]
    assert by_family(families).title == "LoRA gains most in research (24 % to 70 %) and least in aggregation (14 % to 42 %)"
    flipped = families.copy()
    flipped.loc[(flipped["label"] == "LoRA") & (flipped["family"] == "aggregation"), "pass_at_1"] = 0.99
    assert by_family(flipped).title.startswith("LoRA gains most in aggregation")


def test_families_that_only_lose_are_said_so(frames):
    lost = frames["families"].copy()
    lost.loc[lost["label"] == "untrained", "pass_at_1"] = 1.0
    assert by_family(lost).title.startswith("LoRA gains in none of the families")


def test_a_group_without_a_family_leaves_it_out(frames):
    families = frames["families"]
    drawn(by_family(families[~((families["label"] == "full") & (families["family"] == "coding"))]))


# --- training --------------------------------------------------------------------------------


def test_the_title_of_the_dynamics_names_who_ends_best(frames):
    steps = frames["steps"]
    assert dynamics_of_groups(steps).title.startswith("LoRA ends training with the most right answers")
    late = (steps["group"] == "full") & (steps["step"] > 15)
    assert dynamics_of_groups(steps.assign(correct=steps["correct"].where(~late, 0.9))).title.startswith("Full ends training")


def test_each_panel_has_a_thick_line_a_group_and_a_thin_one_a_seed(charts):
    for panel in charts["study_dynamics"].panels:
        thin, thick = ([mark for mark in panel.marks if mark.light is light] for light in (True, False))
        assert (len(thin), len(thick)) == (9, 3) and [mark.style for mark in thick] == ["trained", "third", "fourth"]


def test_the_thin_lines_are_the_numbers_of_the_frame(charts):
    chart = charts["study_dynamics"]
    panel = next(panel for panel in chart.panels if panel.title == "Turns")
    values = sorted(v for mark in panel.marks if mark.light for v in mark.y)
    assert values == pytest.approx(sorted(chart.frame["turns"]))


@pytest.mark.parametrize("every", [1, 3])
def test_steps_without_leaf_tokens_are_drawn(frames, every):
    steps = frames["steps"]
    drawn(dynamics_of_groups(steps.assign(leaf_tokens_mean=steps["leaf_tokens_mean"].where(steps["step"] % every > 0, 0.0))))


def test_tiny_numbers_have_a_unit(charts):
    assert any(panel.title == "Mismatch KL, 10⁻¹² nats" for panel in charts["study_dynamics"].panels)


def test_a_measure_that_was_not_written_has_no_panel(frames):
    titles = [panel.title for panel in dynamics_of_groups(frames["steps"].drop(columns=["entropy"])).panels]
    assert "Turns" in titles and not any(title.startswith("Entropy") for title in titles)


def test_the_title_of_depth_two_has_the_shares(frames):
    assert (
        depth_two(frames["steps"], frames["groups"]).title
        == "Held-out rollouts that start a child: 31 % of depth2 bonus and 0.4 % of depth2"
    )


def test_children_that_nobody_starts_are_said_so(frames):
    unused = frames["groups"].assign(child_usage=0.0, child_usage_low=0.0, child_usage_high=0.0)
    chart = depth_two(frames["steps"], unused)
    drawn(chart)
    assert chart.title == "At depth 2, no held-out rollout starts a child, in any of 2 groups"


@pytest.mark.parametrize("missing", ["steps", "groups"])
def test_depth_two_is_drawn_from_either_half(frames, missing):
    chart = depth_two(*(NONE if name == missing else frames[name] for name in ("steps", "groups")))
    drawn(chart)
    assert len(chart.panels) == 1


def test_a_study_without_depth_two_has_no_such_chart(frames):
    assert depth_two(only(frames["steps"], "lora"), only(frames["groups"], "lora")) is None


# --- runs that were stopped ------------------------------------------------------------------


def test_the_post_mortem_says_when_runs_were_stopped(charts):
    assert charts["study_post_mortem"].title.startswith("2 of 29 training runs were stopped, after 12 and 17 of 30 steps; at best, ")


def test_lines_are_drawn_where_runs_were_stopped(charts):
    for panel in charts["study_post_mortem"].panels:
        assert sorted(mark.x[0] for mark in panel.marks if mark.kind == "vertical") == [11, 16]


def test_no_failed_run_gives_no_chart_and_an_empty_table(frames):
    fine = frames["runs"][frames["runs"]["state"] == "done"]
    assert post_mortem(frames["steps"], fine) is None and post_mortem_table(fine, frames["steps"]).empty


def test_the_table_has_the_best_step_before_and_the_entropy_at_the_end():
    run = {"run": "a", "kind": "train", "state": "failed", "steps": 30, "steps_done": 12, "reason": "step 11: stopped, as x fell; y"}
    correct = [0.1] * 4 + [0.5] * 5 + [0.0] * 3
    steps = pd.DataFrame({"run": "a", "step": range(12), "correct": correct, "entropy": np.linspace(0.5, 0.01, 12)})
    row = post_mortem_table(pd.DataFrame([run]), steps).iloc[0]
    assert (row["stopped at"], row["planned"], row["reason"], row["best step before"]) == (12, 30, "x fell", 8)
    assert (row["right then"], row["entropy at end"]) == pytest.approx((0.5, 0.01))


def test_a_run_that_failed_before_its_first_step_is_in_the_table_only(frames):
    runs = frames["runs"].assign(state=np.where(frames["runs"]["run"] == "full-s42", "failed", "done"), steps_done=0)
    steps = frames["steps"][frames["steps"]["run"] != "full-s42"]
    assert post_mortem(steps, runs) is None
    assert list(post_mortem_table(runs, steps)["run"]) == ["full-s42"]


def test_many_failed_runs_are_drawn_up_to_a_number(frames):
    runs = frames["runs"].assign(state="failed")
    chart = post_mortem(frames["steps"], runs)
    assert chart.frame["run"].nunique() == 5 and "24 that lasted longer are in the table only" in chart.reading
    assert chart.title.startswith("29 of 29 training runs were stopped, after 12 to 30 of 30 steps")


@pytest.mark.parametrize(
    ("reason", "short"),
    [
        ("step 11: stopped, as the entropy fell; no checkpoint; begin another run", "the entropy fell"),
        ("train: step 1: 797 groups gave 4 of 16; lower the rate", "797 groups gave 4 of 16"),
        ("out of memory", "out of memory"),
    ],
)
def test_a_reason_is_told_without_its_advice(reason, short):
    assert short_reason(reason) == short


# --- the grid --------------------------------------------------------------------------------


def cells(chart, panel: int) -> dict:
    (mark,) = chart.panels[panel].marks
    return {(x, y): (text, hatch) for x, y, text, hatch in zip(mark.x, mark.y, mark.texts, mark.hatched, strict=True)}


def test_cells_carry_their_values_and_stopped_ones_are_hatched_and_say_so(charts):
    right, spent, done = (cells(charts["study_lora_grid"], panel) for panel in range(3))
    assert right[1, 1] == ("56 %\n3 seeds", False) and spent[0, 0] == ("4,700", False) and done[0, 0] == ("30 of 30", False)
    assert right[2, 2] == ("stopped\nat step 12", True) and done[2, 2] == ("stopped\nat step 12\nof 30", True)


def test_the_grid_leaves_out_runs_of_other_settings(frames):
    assert set(grid_runs(frames["runs"])["group"]) == {g for g in study.PROFILES if g.startswith("rank")} | {"lora"}


def test_the_title_of_the_grid_flips_with_the_numbers(frames):
    runs = frames["runs"]
    assert lora_grid(runs.assign(pass_at_1=runs["rank"] / 100 - runs["lr"])).title.startswith(
        "Rank 64 at lr 5e-5 is right most often (64 %)"
    )
    assert lora_grid(runs.assign(pass_at_1=0.9 - runs["rank"] / 100 + runs["lr"])).title.startswith("Rank 4 at lr 1e-2 is right most often")


def test_a_place_that_was_not_run_is_named_so(frames):
    chart = lora_grid(frames["runs"][frames["runs"]["run"] != "rank4-lr0.01-s42"])
    assert [cells(chart, panel)[2, 0] for panel in range(3)] == [("not run", False)] * 3
    drawn(chart)


@pytest.mark.parametrize("columns", [["pass_at_1", "leaf_tokens_mean"], []])
def test_a_grid_whose_runs_all_failed_is_drawn(frames, columns):
    runs = frames["runs"].assign(state="failed", **dict.fromkeys(columns, np.nan))
    chart = lora_grid(runs if columns else runs[[c for c in runs if "pass_at" not in c and "tokens" not in c]])
    drawn(chart)
    assert chart.title == "All 11 runs of the grid stopped early"


def test_runs_that_wait_are_told(frames):
    runs = frames["runs"].assign(state="queued", steps_done=0, pass_at_1=np.nan, leaf_tokens_mean=np.nan)
    assert set(cells(lora_grid(runs), 0).values()) == {("queued", False)}


def test_a_single_place_is_no_grid(frames):
    assert lora_grid(only(frames["runs"], "lora")) is None


def test_other_ranks_and_rates_have_their_ticks(frames):
    runs = frames["runs"].assign(rank=frames["runs"]["rank"] * 2, lr=frames["runs"]["lr"] * 3)
    panel = lora_grid(runs).panels[0]
    assert list(panel.ticks.values()) == ["1.5e-4", "3e-3", "3e-2"] and list(panel.y_ticks.values()) == ["8", "32", "128"]


# --- behaviour -------------------------------------------------------------------------------


def test_shares_over_seeds_sum_to_one(frames):
    found = shares(only(frames["phases"], "lora"))
    assert len(found) == study.STEPS and found.sum(axis=1).to_numpy() == pytest.approx(1.0)


def test_bands_of_a_stack_lie_on_one_another_and_fill_the_panel(charts):
    for panel in charts["study_phases"].panels:
        bands = [mark for mark in panel.marks if mark.kind == "area"]
        assert bands[0].low == pytest.approx([0.0] * study.STEPS) and bands[-1].high == pytest.approx([1.0] * study.STEPS)
        for lower, upper in zip(bands, bands[1:], strict=False):
            assert lower.high == pytest.approx(upper.low)


def test_bands_differ_without_colour(charts):
    from rlmlib.drawing.panels import STYLES

    bands = [mark for mark in charts["study_phases"].panels[0].marks if mark.kind == "area"]
    assert len({STYLES[mark.style].hatch for mark in bands}) == len(bands) == 4


def test_every_band_that_is_seen_has_its_name(charts):
    for panel in charts["study_phases"].panels:
        named = {text for mark in panel.marks for text in (mark.texts or [])} | {mark.end for mark in panel.marks if mark.end}
        assert named == {"broad calls", "selective calls", "code only", "without looking"}


def test_groups_that_end_alike_are_told_together(frames):
    assert behaviour_phases(frames["phases"], ["lora", "no-penalty"]).title.endswith("; most end with selective calls (53 % to 65 %)")


def test_the_title_of_the_phases_says_what_most_rollouts_do(frames):
    assert "code only (73 % of full)" in behaviour_phases(frames["phases"]).title
    swapped = frames["phases"].rename(columns={"broad": "code_only", "code_only": "broad"})
    assert "broad calls (73 % of full)" in behaviour_phases(swapped).title


def test_the_tail_is_the_share_that_spends_more():
    found = tail(np.array([0.0, 0.0, 5.0, 10.0]))
    assert dict(zip(found["leaf_tokens"], found["share_above"], strict=True)) == {0.0: 0.5, 5.0: 0.25, 10.0: 0.0}


@given(st.lists(st.integers(0, 50), min_size=1, max_size=30))
def test_the_tail_falls_from_those_that_spend_to_nothing(tokens):
    found = tail(np.array(tokens, dtype=float))
    assert found["share_above"].iloc[0] == pytest.approx(np.mean([t > 0 for t in tokens])) and found["share_above"].iloc[-1] == 0
    assert (found["share_above"].diff().dropna() < 0).all()


def test_tails_count_held_out_rollouts_that_did_not_fail(frames):
    kept = only(frames["evaluations"], "lora")
    more = kept.head(50).assign(split="seen", leaf_tokens=10**6)
    broken = kept.head(50).assign(error="timeout", leaf_tokens=10**7)
    chart = leaf_token_tails(pd.concat([kept, more, broken]))
    assert chart.frame["leaf_tokens"].max() == kept["leaf_tokens"].max() and (chart.frame["rollouts"] == len(kept)).all()


def test_rollouts_without_leaf_tokens_are_told_in_words(frames):
    evaluations = only(frames["evaluations"], "lora").assign(leaf_tokens=lambda f: f["leaf_tokens"].where(f["index"] < 5, 0.0))
    none = (evaluations["leaf_tokens"] == 0).mean()
    assert f"none are spent by {100 * none:.0f} % (LoRA)" in leaf_token_tails(evaluations).reading


def test_only_zeros_give_no_tails(frames):
    assert leaf_token_tails(frames["evaluations"].assign(leaf_tokens=0)) is None


def test_a_group_that_spends_nothing_is_in_the_title_only(frames):
    evaluations = frames["evaluations"]
    chart = leaf_token_tails(evaluations.assign(leaf_tokens=evaluations["leaf_tokens"].where(evaluations["group"] != "full", 0)))
    assert "and 0 (full)" in chart.title and "fourth" not in {mark.style for mark in chart.panels[0].marks}
