"""A sweep file means just these runs, and whatever is wrong in it is told in one line before anything starts."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlmlib import config, params_file
from rlmlib.errors import ConfigError
from rlmlib.notebook import ROOT
from rlmlib.params_file import as_yaml
from rlmlib.sweep import grid
from rlmlib.sweep.grid import Planned, SweepFile

PARAMS = ROOT / "params"
FILES = sorted((PARAMS / "sweeps").glob("*.yaml"))
LORA = [{"rank": 4, "alpha": 8}, {"rank": 16, "alpha": 32}]
ONE = {"only": {}}  # the runs of a sweep where another part of it is looked at


SAME_QUESTIONS = {"evaluation.seed": 42}  # what a sweep of several seeds must have


def sweep(**parts) -> SweepFile:
    return params_file.validate({"name": "toy", "base": "smoke.yaml", **parts}, SweepFile)


def resolved(**parts) -> list[Planned]:
    return grid.resolve(sweep(**parts), PARAMS)


def names(**parts) -> list[str]:
    return [run.name for run in resolved(**parts)]


def refusal(tmp_path: Path, text: str) -> str:
    """The message with which a sweep file of this text is refused."""
    path = tmp_path / "case.yaml"
    path.write_text(f"name: toy\nbase: {PARAMS / 'smoke.yaml'}\n{text}")
    with pytest.raises(ConfigError) as caught:
        grid.load(path)
    return str(caught.value)


# --- the runs


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_shipped_sweep_resolves(path):
    _, runs = grid.load(path)
    assert len({run.name for run in runs}) == len(runs) > 1


def test_axes_are_multiplied_out():
    runs = resolved(axes={"training.lr": [0.1, 0.2], "training.steps": [1, 2, 3]})
    assert [(run.params.training.lr, run.params.training.steps) for run in runs] == [(lr, n) for lr in (0.1, 0.2) for n in (1, 2, 3)]


def test_a_run_is_named_after_its_settings_and_seed():
    assert names(axes={"policy.lora": LORA, "training.lr": [5e-5]}) == ["rank4-lr5e-05-s42", "rank16-lr5e-05-s42"]


@pytest.mark.parametrize(
    "key, value, label",
    [
        ("training.lr", 0.001, "lr0.001"),
        ("training.lr", 1, "lr1"),
        ("training.keep_all_right", True, "keep_all_rightTrue"),
        ("harness.max_dollars", None, "max_dollarsNone"),
        ("policy.model", "a b/ü", "modela_b_"),
        ("policy.lora.targets", ["q", "v"], "targets_q_v_"),
        ("policy.lora", {"rank": 16, "alpha": 32}, "rank16"),
        ("policy", {"lora": {"rank": 16}}, "lora_rank_16_"),
        ("policy.lora", {}, "lora_"),
    ],
)
def test_the_label_of_a_setting_is_fit_for_a_folder(key, value, label):
    assert grid.label(key, value) == label and grid.FOLDER.fullmatch(label)


def test_a_value_of_a_section_changes_only_the_keys_that_it_has():
    params = resolved(set={"policy.lora.dropout": 0.5}, axes={"policy.lora": LORA})[1].params.policy.lora
    assert (params.rank, params.alpha, params.dropout, params.targets) == (16, 32, 0.5, config.Lora().targets)


def test_every_combination_is_run_once_a_seed():
    runs = resolved(set=SAME_QUESTIONS, axes={"policy.lora": LORA}, seeds=[1, 2])
    assert [(run.group, run.seed, run.params.seed) for run in runs] == [(f"rank{r}", s, s) for r in (4, 16) for s in (1, 2)]


def test_the_params_are_those_of_the_base_file_but_for_the_changes():
    (run,) = resolved(set={"training.lr": 0.5}, runs={"only": {"set": {"training.steps": 9}}}, seeds=[3])
    base = config.load(PARAMS / "smoke.yaml", {"training.lr": 0.5, "training.steps": 9, "seed": 3, "name": "only-s3"})
    assert run.params == base


def test_a_run_is_told_apart_by_its_own_changes():
    grid_run, extra = resolved(set={"training.steps": 1}, axes={"training.lr": [0.5]}, runs={"x": {"set": {"tasks.pool": 5}}})
    assert (grid_run.changes, extra.changes) == ({"training.lr": 0.5}, {"tasks.pool": 5})


def test_changes_of_a_run_win_over_those_of_the_sweep():
    runs = resolved(set={"training.lr": 0.5}, axes={"training.lr": [0.1]}, runs={"x": {"set": {"training": {"lr": 0.2}}}})
    assert [run.params.training.lr for run in runs] == [0.1, 0.2]


def test_runs_beside_the_grid_have_a_kind_and_seeds_of_their_own():
    runs = resolved(set=SAME_QUESTIONS, runs={"base": {"kind": "untrained"}, "lora": {"seeds": [1, 2]}})
    assert [(run.name, run.kind) for run in runs] == [("base-s42", "untrained"), ("lora-s1", "train"), ("lora-s2", "train")]


def test_runs_of_the_grid_are_trained():
    assert {run.kind for run in resolved(axes={"policy.lora": LORA})} == {"train"}


def test_a_run_may_have_a_limit_of_its_own():
    named = {"short": {"limit_minutes": 0.25}, "usual": {"seeds": [1]}}
    runs = resolved(set=SAME_QUESTIONS, limit_minutes=2.0, axes={"training.lr": [0.1]}, runs=named)
    assert {run.name: run.limit_s for run in runs} == {"lr0.1-s42": 120.0, "short-s42": 15.0, "usual-s1": 120.0}


def test_the_same_settings_in_another_kind_are_another_run():
    assert names(runs={"base": {"kind": "untrained"}, "lora": {}}) == ["base-s42", "lora-s42"]


# --- mistakes


def test_seeds_that_would_be_asked_other_questions_are_refused():
    with pytest.raises(ConfigError, match="toy: runs of the seeds 1, 2 would be asked other questions; set evaluation.seed"):
        resolved(axes={"training.lr": [0.1]}, seeds=[1, 2])


MISTAKES = {  # what a sweep file of this text is refused with
    "misspelt key of the file": ("axs: {training.lr: [0.1]}", ["axs: no such parameter; did you mean 'axes'?"]),
    "misspelt parameter in set": ("set: {training.step: 3}\nruns: {x: {}}", ["run x-s42: training.step: no such", "mean 'steps'?"]),
    "misspelt parameter in an axis": ("axes: {trainin.lr: [0.1]}", ["lr0.1-s42", "trainin: no such parameter; did you mean 'training'?"]),
    "misspelt parameter of a section": ("axes: {policy.lora: [{rnk: 4}]}", ["policy.lora.rnk", "did you mean 'rank'?"]),
    "misspelt parameter of a run": ("runs: {x: {set: {reward.betamax: 1}}}", ["run x-s42", "did you mean 'beta_max'?"]),
    "unknown key of a run": ("runs: {x: {sett: {}}}", ["runs.x.sett: no such parameter"]),
    "wrong type in an axis": ("axes: {training.steps: [2, many]}", ["run stepsmany-s42: training.steps", "got 'many'"]),
    "number written as no YAML number": ("axes: {training.lr: [1e-5]}", ["training.lr: '1e-5' is a string to YAML 1.1", "1.0e-5"]),
    "bare on": ("runs: {x: {set: {policy.model: on}}}", ["policy.model", "bare on/off/yes/no"]),
    "number in base 60": ("runs: {x: {set: {harness.deadline_s: 1:30}}}", ["line 3", "base 60"]),
    "axis of one value without a list": ("axes: {training.lr: 0.1}", ["axes.training.lr", "list"]),
    "axis without values": ("axes: {training.lr: []}", ["axes.training.lr: has no values"]),
    "no runs": ("set: {training.lr: 0.1}", ["has no runs; give axes or runs"]),
    "no seeds": ("seeds: []\naxes: {training.lr: [0.1]}", ["seeds: list should have at least 1 item"]),
    "no seeds of a run": ("runs: {x: {seeds: []}}", ["runs.x.seeds: list should have at least 1 item"]),
    "negative seed": ("seeds: [-1]\nruns: {x: {}}", ["seeds.0", "got -1"]),
    "negative seed of a run": ("runs: {x: {seeds: [3, -1]}}", ["runs.x.seeds.1", "got -1"]),
    "unknown kind": ("runs: {x: {kind: trained}}", ["runs.x.kind", "'untrained'", "got 'trained'"]),
    "no time at all": ("limit_minutes: 0\nruns: {x: {}}", ["limit_minutes", "got 0"]),
    "nothing at a time": ("at_once: 0\nruns: {x: {}}", ["at_once", "got 0"]),
    "run in a folder above": ("runs: {../x: {}}", ["runs.../x: is no name for a folder"]),
    "run without a name": ("runs: {'': {}}", ["is no name for a folder"]),
    "run named by a number": ("runs: {1: {}}", ["runs.1"]),
    "name too long for a folder": (f"runs: {{{'x' * 230}: {{}}}}", ["over 200 characters"]),
    "two runs of one name": ("seeds: [1, 1]\nruns: {x: {}}", ["two runs are called x-s1"]),
    "two values with one label": ("axes: {policy.lora: [{rank: 4, alpha: 8}, {rank: 4, alpha: 9}]}", ["two runs are called rank4-s42"]),
    "one run in two names": ("runs: {x: {}, y: {}}", ["x-s42 and y-s42 are the same run"]),
    "one run in the grid and beside it": (
        "axes: {training.lr: [0.1]}\nruns: {x: {set: {training: {lr: 0.1}}}}",
        ["lr0.1-s42 and x-s42 are the same run"],
    ),
    "two parameters that contradict": (
        "axes: {tasks.min_chars: [5, 9000]}\nset: {tasks.max_chars: 8000}",
        ["run min_chars9000-s42: tasks: min_chars 9000 is over max_chars 8000"],
    ),
    "value in place of a section": ("runs: {x: {set: {training: 3}}}", ["run x-s42: training"]),
    "key below a value": ("axes: {training.steps.first: [1]}", ["training.steps.first: 'steps' is a value, not a section"]),
    "number as a key of a section": ("axes: {policy.lora: [{4: 8}]}", ["policy.lora.4: no such parameter"]),
    "seed as a setting": ("set: {seed: 3}\nruns: {x: {}}", ["set.seed: is given by `seeds`"]),
    "seed as an axis": ("axes: {seed: [1, 2]}", ["axes.seed: is given by `seeds`"]),
    "name as a setting of a run": ("runs: {x: {set: {name: y}}}", ["runs.x.set.name: is made from"]),
    "key given twice": ("runs: {x: {}}\nruns: {y: {}}", ["'runs' is given twice"]),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_named_in_one_line(tmp_path, case):
    text, told = MISTAKES[case]
    message = refusal(tmp_path, text)
    assert all(part in message for part in told), message
    assert len(message.splitlines()) == 1


def test_a_missing_base_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=f"{tmp_path}/nothing.yaml: cannot be read"):
        grid.resolve(sweep(base="nothing.yaml", runs=ONE), tmp_path)


def test_a_missing_sweep_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match="nothing.yaml: cannot be read"):
        grid.load(tmp_path / "nothing.yaml")


def test_a_mistake_of_the_base_file_is_that_file_s_alone(tmp_path):
    (tmp_path / "base.yaml").write_text("name: x\ntraining: {steps: 0}\n")
    with pytest.raises(ConfigError) as caught:
        grid.resolve(sweep(base="base.yaml", axes={"training.lr": [0.1, 0.2]}), tmp_path)
    assert str(caught.value).count("training.steps") == 1 and "run " not in str(caught.value)


def test_the_base_file_is_meant_from_the_sweep_file_s_folder(tmp_path, monkeypatch):
    (tmp_path / "sweeps").mkdir()
    (tmp_path / "base.yaml").write_text("name: x\ntraining: {steps: 77}\n")
    (tmp_path / "sweeps/s.yaml").write_text("name: toy\nbase: ../base.yaml\nruns: {x: {}}\n")
    monkeypatch.chdir(tmp_path)
    assert grid.load("sweeps/s.yaml")[1][0].params.training.steps == 77


@pytest.mark.parametrize("name", ["../up", "a b", "", ".hidden", "a/b"])
def test_a_sweep_has_a_name_for_a_folder(name):
    with pytest.raises(ConfigError, match="is no name for a folder"):
        resolved(name=name, runs=ONE)


def test_a_problem_of_all_runs_is_told_once(tmp_path):
    message = refusal(tmp_path, "set: {training.step: 3}\naxes: {training.lr: [0.1, 0.2, 0.3]}")
    assert "each of the runs: training.step: no such parameter" in message and message.count("training.step") == 1


def test_a_problem_of_some_runs_names_just_those(tmp_path):
    message = refusal(tmp_path, "axes: {training.lr: [0.1, -1.0], training.steps: [1, 2]}")
    assert "runs lr-1-steps1-s42, lr-1-steps2-s42: training.lr" in message and "each of the runs" not in message


def test_of_many_runs_with_a_problem_the_first_are_named(tmp_path):
    message = refusal(tmp_path, "axes: {training.lr: [0.1, -1.0]}\nseeds: [1, 2, 3, 4, 5]")
    assert "runs lr-1-s1, lr-1-s2, lr-1-s3 and 2 more: training.lr" in message


def test_problems_that_differ_are_all_told(tmp_path):
    message = refusal(tmp_path, "axes: {training.lr: [0.1, -1.0, -2.0]}")
    assert "run lr-1-s42: training.lr" in message and "run lr-2-s42: training.lr" in message


# --- what a run's folder holds already


def test_no_parameter_of_the_same_run_differs():
    (run,) = resolved(runs=ONE)
    assert grid.differing(run, run.params.model_dump()) == []


def test_differing_parameters_are_named():
    (run,) = resolved(runs=ONE)
    there = run.params.model_dump() | {"seed": 1, "training": run.params.training.model_dump() | {"lr": 0.9}}
    assert grid.differing(run, there) == ["seed", "training.lr"]


# --- the params file of a run

TRAPS = [
    "",
    " ",
    "1e-5",
    "on",
    "null",
    "~",
    "1:30",
    "010",
    "1_000",
    "=",
    "<<",
    "2025-01-02",
    "- a",
    "a: b",
    "#",
    "\u2028",
    "\ufeff\r\n\x85",
]
POSITIVE = st.floats(min_value=0, exclude_min=True, allow_infinity=False)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("params") / "params.yaml"


def read_back(params: config.Params, path: Path) -> config.Params:
    path.write_text(as_yaml(params))
    return config.load(path)


@pytest.mark.parametrize("text", TRAPS)
def test_a_text_that_yaml_would_read_otherwise_comes_back(file, text):
    params = config.validate({"name": "x", "policy": {"model": text, "lora": {"targets": [text]}}})
    assert read_back(params, file) == params


@settings(deadline=None, max_examples=60)
@example(text="x", lr=5e-05, dollars=None, seed=None, targets=[])
@example(text="x", lr=1e16, dollars=1e-300, seed=0, targets=["a", "a"])
@given(
    text=st.text(),
    lr=POSITIVE,
    dollars=st.none() | POSITIVE,
    seed=st.none() | st.integers(0, 2**32 - 1),
    targets=st.lists(st.text(max_size=5), max_size=3),
)
def test_params_that_were_written_are_read_back_the_same(file, text, lr, dollars, seed, targets):
    params = config.validate(
        {
            "name": text,
            "policy": {"model": text, "lora": {"targets": targets}},
            "harness": {"max_dollars": dollars},
            "training": {"lr": lr, "watch": {"mismatch": dollars}},
            "evaluation": {"seed": seed},
        }
    )
    assert read_back(params, file) == params
