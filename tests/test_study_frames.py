"""The frames of a folder of runs whose outcomes are known."""

import json
import os

import pandas as pd
import pytest
import yaml
from study_runs import GRID, QUESTIONS, ROLLOUTS, STEPS, End, Outcome, evaluate, even, of_groups, planned, study, train, uneven

from rlmlib.behaviour import KINDS
from rlmlib.errors import RunError
from rlmlib.notebook import ROOT
from rlmlib.runs import RunDir, open_run, read_json, write_json
from rlmlib.study import comparisons, frames
from rlmlib.sweep import grid

RIGHT = {42: 0.5, 43: 0.75, 44: 1.0}
LEAF = {42: 100, 43: 200, 44: 600}  # of the context's 1000 tokens
DIVERGED = "train: step 5: stopped, as 98% of the rollouts give no answer"
ENDS = {
    "rank64-lr0.01-s42": End(reason=DIVERGED, steps=6),
    "full-s43": End("timeout", "train: over the limit of 60 minutes", 7),
    "full-s44": End("running", "train", 3),
    "no-penalty-s43": End("queued", "was timeout: too slow", 2),
    "no-penalty-s44": End("running", "train", 1),
}


def by_seed(seed, question, index):
    return Outcome(index < RIGHT[seed] * ROLLOUTS, LEAF[seed])


def asks(step, prompt, index):
    """One rollout in four asks for all, one for a little, the others never; in step 3 one fails."""
    error = "the leaf is down" if (step, prompt, index) == (3, 0, 3) else None
    return Outcome(index > 1, {0: 900, 1: 50}.get(index, 0), error=error)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    told = {
        "rank64-lr0.01": even(0.5),
        "base": even(0.25, 400, forced=True),
        "plain": even(0.25, 50),
        "lora": by_seed,
        "no-penalty": even(0.5),
        "full": even(0.75, 0),
        "depth2": even(0.5, 0, children=2, error="down"),
    }
    made = study(tmp_path_factory.mktemp("study"), told, {"lora": asks}, ENDS, prompts=2)
    for run, heartbeat in (("full-s44", 0.0), ("no-penalty-s44", 1e12)):  # the parent of the first is gone
        write_json(made / f"{run}/status.json", {"state": "running", "reason": "train", "heartbeat": heartbeat})
    return made


@pytest.fixture(scope="module")
def runs(folder):
    return frames.load_runs(folder).set_index("run")


@pytest.fixture(scope="module")
def groups(folder):
    return frames.load_groups(folder).set_index("group")


def test_made_up_grid_is_that_of_the_tiny_study():
    values = yaml.safe_load((ROOT / "params/sweeps/tiny.yaml").read_text())
    loras, rates = values["axes"]["policy.lora"], values["axes"]["training.lr"]
    assert values["seeds"] == [42]
    assert set(GRID) == {f"{grid.label('policy.lora', lora)}-{grid.label('training.lr', lr)}" for lora in loras for lr in rates}


# --- runs ------------------------------------------------------------------------------------


COLUMNS = (
    "group label kind seed state reason tuning rank lr depth beta_max child_bonus hidden_labels steps steps_done train_seconds "
    "eval_seconds error_rate leaf_tokens_median leaf_tokens_p90 leaf_tokens_p95 leaf_tokens_p99 leaf_tokens_max"
).split()
MEANS = "correct leaf_tokens_mean total_tokens_mean leaf_calls llm_usage child_usage missing_final forced_final turns".split()


@pytest.mark.parametrize("name", [*COLUMNS, *(f"{m}{end}" for m in (*MEANS, "pass_at_1", "pass_at_4") for end in ("", "_low", "_high"))])
def test_runs_have_the_column(runs, name):
    assert name in runs.columns


def test_there_is_a_row_for_every_run_dead_ones_too(runs):
    known = of_groups("rank64-lr0.01", "base", "plain", "lora", "no-penalty", "full", "depth2")
    assert list(runs.index) == [run.name for run in known]


@pytest.mark.parametrize(
    ("name", "state", "reason", "done"),
    [
        ("rank64-lr0.01-s42", "failed", DIVERGED, 6),
        ("full-s43", "timeout", "train: over the limit of 60 minutes", 7),
        ("full-s44", "lost", "its parent ended without a word; run the sweep again to go on", 3),
        ("no-penalty-s43", "queued", "was timeout: too slow", 2),
        ("no-penalty-s44", "running", "train", 1),
        ("full-s42", "done", "", STEPS),
    ],
)
def test_states_are_told_with_their_reason(runs, name, state, reason, done):
    found = runs.loc[name]
    assert (found.state, found.reason, found.steps_done, found.steps) == (state, reason, done, STEPS)


@pytest.mark.parametrize("name", list(ENDS))
def test_runs_that_were_not_evaluated_have_no_measures(runs, name):
    assert runs.loc[name, ["pass_at_1", "correct", "leaf_tokens_mean", "eval_seconds"]].isna().all()


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        ("rank16-lr0.001-s42", "pass_at_1", 0.5),
        ("rank16-lr0.001-s42", "pass_at_2", 5 / 6),
        ("rank16-lr0.001-s42", "pass_at_4", 1.0),
        ("lora-s43", "correct", 0.75),
        ("lora-s43", "correct_low", 0.75),
        ("lora-s43", "leaf_tokens_mean", 200),
        ("lora-s43", "total_tokens_mean", 300),
        ("lora-s43", "leaf_tokens_p99", 200),
        ("lora-s43", "leaf_tokens_max", 200),
        ("lora-s43", "llm_usage", 1.0),
        ("full-s42", "llm_usage", 0.0),
        ("full-s42", "leaf_calls", 0.0),
        ("base-s42", "forced_final", 1.0),
        ("base-s42", "steps", 0),
        ("base-s42", "train_seconds", 0),
        ("lora-s44", "train_seconds", 3.0 * STEPS),
        ("lora-s44", "eval_seconds", 0.25 * ROLLOUTS * (QUESTIONS + QUESTIONS // 2)),
        ("lora-s44", "seen_pass_at_1", 1.0),
        ("lora-s44", "error_rate", 0.0),
        ("lora-s44", "n_rollouts", QUESTIONS * ROLLOUTS),
    ],
)
def test_measures_of_a_run_are_those_of_its_held_out_rollouts(runs, name, column, value):
    assert runs.loc[name, column] == pytest.approx(value)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("rank64-lr0.01-s42", {"tuning": "lora", "rank": 64, "lr": 1e-2, "depth": 1, "beta_max": 0.15, "label": "rank 64, lr 0.01"}),
        ("lora-s44", {"tuning": "lora", "rank": 16, "lr": 1e-3, "seed": 44, "hidden_labels": 0.5, "label": "LoRA", "kind": "train"}),
        ("no-penalty-s42", {"beta_max": 0.0, "rank": 16, "label": "no penalty"}),
        ("full-s42", {"tuning": "full", "lr": 2e-4, "label": "full"}),
        ("depth2-s42", {"depth": 2, "child_bonus": 0.0}),
        ("base-s42", {"kind": "untrained", "label": "untrained"}),
        ("plain-s42", {"kind": "plain", "label": "leaf alone"}),
    ],
)
def test_configuration_is_told(runs, name, told):
    assert runs.loc[name, list(told)].to_dict() == told


def test_full_fine_tuning_has_no_rank(runs):
    assert pd.isna(runs.loc["full-s42", "rank"])


def test_the_leaf_alone_has_one_attempt(runs):
    assert runs.loc["plain-s42", "n_rollouts"] == QUESTIONS and pd.isna(runs.loc["plain-s42", "pass_at_2"])


def test_an_evaluation_whose_rollouts_all_failed_has_no_measures(runs, groups):
    assert runs.loc["depth2-s42", "state"] == "done" and pd.isna(runs.loc["depth2-s42", "pass_at_1"])
    assert "depth2" not in groups.index


# --- groups ----------------------------------------------------------------------------------


def test_a_run_of_the_grid_is_a_seed_of_the_group_with_its_configuration(runs, groups):
    assert runs.loc["rank16-lr0.001-s42", "group"] == "lora"
    assert groups.loc["lora", "seeds"] == "42, 43, 44" and groups.loc["lora", "runs"] == 3


def test_runs_of_one_configuration_and_another_kind_stay_apart(groups):
    """The untrained policy has the very parameters of the run of rank 16."""
    assert groups.loc["base", "runs"] == 1 and groups.loc["base", "kind"] == "untrained"


def test_groups_are_of_evaluated_runs_alone(groups):
    assert list(groups.index) == ["lora", "base", "plain", "no-penalty", "full"]
    assert groups.loc["full", "seeds"] == "42" and groups.loc["no-penalty", "runs"] == 1


def test_a_group_has_the_mean_of_its_seeds_and_an_interval_over_them(groups):
    """All questions are alike, so the seeds are all that differs: the interval ends at the worst and at the best."""
    lora = groups.loc["lora"]
    assert (lora.pass_at_1, lora.pass_at_1_low, lora.pass_at_1_high) == pytest.approx((0.75, 0.5, 1.0))
    assert (lora.leaf_tokens_mean, lora.leaf_tokens_mean_low, lora.leaf_tokens_mean_high) == pytest.approx((300, 100, 600))


def test_quantiles_of_a_group_are_over_the_rollouts_of_all_seeds(groups):
    lora = groups.loc["lora"]
    assert (lora.leaf_tokens_median, lora.leaf_tokens_p90, lora.leaf_tokens_max) == (200, 600, 600)


def test_a_group_counts_its_rollouts_and_its_questions_once(groups):
    assert (groups.loc["lora", "n_rollouts"], groups.loc["lora", "n_examples"]) == (3 * QUESTIONS * ROLLOUTS, QUESTIONS)


def test_a_group_of_one_seed_has_the_interval_of_its_run(tmp_path):
    made = study(tmp_path, {"base": uneven(0.5)})
    run, group = frames.load_runs(made).iloc[0], frames.load_groups(made).iloc[0]
    for name in ("pass_at_1", "pass_at_1_low", "pass_at_1_high", "leaf_tokens_mean_low", "leaf_tokens_p95", "leaf_tokens_max"):
        assert group[name] == pytest.approx(run[name]), name
    assert run.pass_at_1_low < 0.4 and run.pass_at_1_high > 0.6


def test_pass_at_k_of_a_group_ends_where_a_run_has_no_more(tmp_path):
    def failing(seed, question, index):
        return Outcome(error="down" if (seed, question) == (43, 5) and index > 1 else None)

    [group] = frames.load_groups(study(tmp_path, {"full": failing})).to_dict("records")
    assert "pass_at_2" in group and "pass_at_3" not in group
    assert group["error_rate"] == pytest.approx(2 / (3 * QUESTIONS * ROLLOUTS))


def test_seeds_that_were_asked_other_questions_are_not_taken_for_pairs(tmp_path):
    """Their examples have the same names."""
    made = study(tmp_path, {"full": even(0.5)})
    evaluate(RunDir(made / "full-s43"), planned("full", 43), even(0.5), wording="another question")
    with pytest.raises(RunError, match="not asked the same questions"):
        frames.load_groups(made)


def test_a_summary_without_its_rollouts_counts_as_not_evaluated(tmp_path):
    made = study(tmp_path, {"base": even(0.5), "full": even(0.5)})
    (made / "full-s43/eval/trained/rollouts.jsonl").unlink()
    assert frames.load_groups(made).set_index("group").loc["full", "seeds"] == "42, 44"


# --- steps, phases, rollouts -------------------------------------------------------------------


def test_steps_are_all_rows_of_metrics_of_all_training_runs(folder):
    steps = frames.load_steps(folder)
    assert steps.groupby("run").size().to_dict() == {
        "rank64-lr0.01-s42": 6, "rank16-lr0.001-s42": STEPS, "lora-s43": STEPS, "lora-s44": STEPS, "no-penalty-s42": STEPS,
        "no-penalty-s43": 2, "no-penalty-s44": 1, "full-s42": STEPS, "full-s43": 7, "full-s44": 3, "depth2-s42": STEPS,
    }  # fmt: skip
    assert set(steps[steps["run"] == "rank16-lr0.001-s42"][["group", "label", "seed"]].itertuples(index=False, name=None)) == {
        ("lora", "LoRA", 42)
    }


@pytest.mark.parametrize(
    "name",
    (
        "step reward correct leaf_tokens_mean llm_usage children total_tokens reply_tokens turns missing forced all_wrong all_right "
        "acceptance entropy mismatch_kl_kept sample_seconds train_seconds lr"
    ).split(),
)
def test_steps_have_the_column_without_gaps(folder, name):
    assert frames.load_steps(folder)[name].notna().all()


def test_phases_are_shares_of_the_rollouts_of_a_step(folder):
    phases = frames.load_phases(folder).set_index(["run", "step"])
    assert phases.loc[("lora-s43", 0), ["rollouts", *KINDS]].tolist() == [8, 0.25, 0.25, 0.5, 0.0]
    assert phases[list(KINDS)].sum(axis=1).tolist() == pytest.approx([1.0] * 3 * STEPS)


def test_phases_leave_out_what_the_machinery_failed(folder):
    phases = frames.load_phases(folder).set_index(["run", "step"])
    assert phases.loc[("lora-s43", 3), ["rollouts", "broad", "code_only"]].tolist() == pytest.approx([7, 2 / 7, 3 / 7])


def test_phases_are_kept_beside_the_rollouts_and_survive_them(tmp_path):
    made = study(tmp_path, {"depth2": even(0.5)}, {"depth2": asks}, prompts=1)
    first = frames.load_phases(made)
    (made / "depth2-s42/rollouts/step_0.jsonl").unlink()
    assert frames.load_phases(made).equals(first)
    train(RunDir(made / "depth2-s42"), [STEPS], asks, 1)
    assert frames.load_phases(made)["step"].tolist() == list(range(STEPS + 1))


def test_a_step_that_was_sampled_again_is_counted_again(tmp_path):
    made = study(tmp_path, {"depth2": even(0.5)}, {"depth2": asks}, prompts=1)
    first, path = frames.load_phases(made), made / "depth2-s42/rollouts/step_0.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:1]))
    later = (made / "depth2-s42/phases.json").stat().st_mtime + 10
    os.utime(path, (later, later))
    assert first.loc[0, "rollouts"] == ROLLOUTS and frames.load_phases(made).loc[0, "rollouts"] == 1


def test_evaluations_are_all_rollouts_of_all_evaluated_runs(folder):
    found = frames.load_evaluations(folder)
    whole = ROLLOUTS * (QUESTIONS + QUESTIONS // 2)
    assert found.groupby("run").size().to_dict() == {
        "rank16-lr0.001-s42": whole, "lora-s43": whole, "lora-s44": whole, "base-s42": whole, "plain-s42": whole // ROLLOUTS,
        "no-penalty-s42": whole, "full-s42": whole, "depth2-s42": whole,
    }  # fmt: skip
    assert (
        list(found.columns)
        == (
            "run group label seed kind split family task example index correct leaf_tokens total_tokens leaf_calls children missing forced "
            "error behaviour"
        ).split()
    )


def test_evaluations_say_what_became_of_a_rollout(folder):
    found = frames.load_evaluations(folder).set_index(["run", "example", "index"])
    row = found.loc[("lora-s44", "heldout-00004", 3)]
    assert (row.correct, row.leaf_tokens, row.total_tokens, row.leaf_calls, row.children) == (True, 600, 700, 1, 0)
    assert (row.split, row.family, row.behaviour, row.kind, row.label) == ("heldout", "coding", "broad", "train", "LoRA")
    assert found.loc[("depth2-s42", "heldout-00000", 0), "error"] == "down"
    assert found.loc[("full-s42", "heldout-00000", 0), "behaviour"] == "code_only"


def test_evaluations_average_to_the_measures_of_the_runs(folder, runs):
    found = frames.load_evaluations(folder)
    held = found[(found["split"] == "heldout") & found["error"].isna()].groupby("run")["correct"].mean()
    for name, value in held.items():
        assert runs.loc[name, "pass_at_1"] == pytest.approx(value), name


# --- folders ---------------------------------------------------------------------------------


def test_a_folder_without_a_sweep_file_has_every_run_in_it(tmp_path):
    made = study(tmp_path, {"no-penalty": even(0.5)})
    (made / "sweep.json").unlink()
    assert [run.name for run in frames.read_runs(made)] == ["no-penalty-s42", "no-penalty-s43", "no-penalty-s44"]
    assert len(frames.load_groups(made)) == 1  # one configuration


def test_runs_that_never_began_have_no_row(tmp_path):
    made = study(tmp_path, {"base": even(0.5)})
    listed = json.loads((made / "sweep.json").read_text())
    listed["runs"].append({"name": "later-s42", "group": "later", "kind": "train", "seed": 42, "changes": {}})
    write_json(made / "sweep.json", listed)
    assert list(frames.load_runs(made)["run"]) == ["base-s42"]


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(RunError, match="holds no runs; make some"):
        frames.read_runs(tmp_path)


def test_the_shortest_name_of_a_configuration_stays_whatever_the_order(tmp_path):
    run = planned("rank16-lr0.001", 42)
    for name in ("long-name-s42", "short-s42"):
        open_run(tmp_path / name, run.params)
    for order in ((0, 1), (1, 0)):
        listed = [{"name": f"{group}-s42", "group": group, "kind": "train"} for group in ("long-name", "short")]
        write_json(tmp_path / "sweep.json", {"runs": [listed[i] for i in order]})
        assert {run.group for run in frames.read_runs(tmp_path)} == {"short"}


# --- comparisons -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def differences(folder):
    return comparisons.load_differences(folder).set_index(["comparison", "measure"])


def test_comparisons_are_those_whose_runs_are_there(differences):
    assert {name for name, _ in differences.index} == {
        "LoRA, less untrained", "no penalty, less untrained", "full, less untrained", "penalty on, less off", "full, less LoRA",
    }  # fmt: skip


def test_right_answers_are_compared_by_difference_and_tokens_by_ratio(differences):
    right, tokens = (differences.loc[("LoRA, less untrained", measure)] for measure in ("right", "tokens"))
    assert (right.value, right.low, right.high) == pytest.approx((0.5, 0.25, 0.75))
    assert (tokens.value, tokens.low, tokens.high) == pytest.approx((0.75, 0.25, 1.5))


def test_an_untrained_policy_stands_beside_every_seed(differences):
    assert differences.loc[("LoRA, less untrained", "right"), "seed_values"] == pytest.approx([0.25, 0.5, 0.75])


def test_trained_runs_stand_beside_their_own_seed_alone(differences):
    """The one run of no-penalty is of seed 42: it is no pair of the other seeds."""
    assert differences.loc[("penalty on, less off", "right"), "seed_values"] == pytest.approx([0.0])


def test_a_ratio_to_nothing_is_infinite(tmp_path):
    made = study(tmp_path, {"base": even(0.5, 0), "depth2": even(0.5, 100)})
    found = comparisons.load_differences(made).set_index("measure").loc["tokens"]
    assert found.value == found.low == found.high == float("inf") and found.seed_values == [float("inf")]


def test_groups_that_were_asked_other_questions_are_not_compared(tmp_path):
    made = study(tmp_path, {"base": even(0.5), "depth2": even(0.5)})
    evaluate(RunDir(made / "depth2-s42"), planned("depth2", 42), even(0.5), wording="another question")
    assert len(comparisons.load_differences(made)) == 0


def test_families_have_their_own_measures(tmp_path):
    made = study(tmp_path, {"base": lambda seed, question, index: Outcome(question % 3 == 0, 100 * (question % 3))})
    found = comparisons.load_families(made).set_index("family")
    assert found["pass_at_1"].to_dict() == {"aggregation": 1.0, "coding": 0.0, "research": 0.0}
    assert found["leaf_tokens_mean_high"].to_dict() == {"aggregation": 0.0, "coding": 100.0, "research": 200.0}
    assert found["questions"].tolist() == [4, 4, 4]


def test_a_family_whose_rollouts_all_failed_in_one_run_is_left_out(tmp_path):
    made = study(tmp_path, {"full": lambda seed, question, index: Outcome(error="down" if seed == 43 and question % 3 == 0 else None)})
    assert list(comparisons.load_families(made)["family"]) == ["coding", "research"]


def test_summaries_are_what_the_frames_are_made_of(folder, runs):
    told = read_json(folder / "lora-s43/eval/trained/summary.json")["heldout"]
    assert runs.loc["lora-s43", "pass_at_3"] == told["pass_at_3"][0]
