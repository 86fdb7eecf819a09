"""What a run is at is read from its files, whoever asks; how that is shown; who has which GPU; what a sweep will take."""

import io
import json
import os
import subprocess
import sys
import time

import pytest

from rlmlib import params_file, runs
from rlmlib.errors import ConfigError
from rlmlib.notebook import ROOT
from rlmlib.runs import RunDir, append_jsonl, last_jsonl, write_json
from rlmlib.sweep import grid, live, plan
from rlmlib.sweep.leases import Gpus
from rlmlib.sweep.runner import stages
from rlmlib.sweep.states import HEARTBEAT_S, LOST, LOST_S, NO_RESULT, State, count, result, state_of
from rlmlib.training import preflight
from rlmlib.training.preflight import Device

KINDS = ("train", "untrained", "plain")
HOSTILE = "<script>alert(1)</script> [bold red]x[/bold red] [/] & \x1b[31mred\x1b[0m\x07"


@pytest.fixture
def run(tmp_path) -> RunDir:
    (tmp_path / "run").mkdir()
    return RunDir(tmp_path / "run")


def planned(kind: str = "train", **changes) -> grid.Planned:
    values = {"name": "toy", "base": "smoke.yaml", "runs": {"x": {"kind": kind, "set": changes}}}
    (found,) = grid.resolve(params_file.validate(values, grid.SweepFile), ROOT / "params")
    return found


def seen(run: RunDir, kind: str = "train") -> State:
    return state_of(planned(kind), run)


def set_status(run: RunDir, state: str, reason: str = "", age_s: float = 0.0):
    write_json(run / "status.json", {"state": state, "reason": reason, "heartbeat": time.time() - age_s})


def set_progress(run: RunDir, **changes):
    write_json(run / "progress.json", {"phase": "train", "done": 1, "total": 3, "eta_s": 40.0, "note": ""} | changes)


def set_summary(run: RunDir, kind: str = "train", right: float = 0.75, tokens: float = 1234.0):
    write_json(run / result(kind), {"heldout": {"correct": [right, 0, 1], "leaf_tokens_mean": [tokens, 0, 9]}})


# --- the state of a run


def test_a_run_without_a_folder_is_queued(tmp_path):
    assert seen(RunDir(tmp_path / "nothing")) == State("x-s42", "queued")


@pytest.mark.parametrize("state", ["queued", "failed", "timeout"])
def test_a_state_is_told_with_its_reason(run, state):
    set_status(run, state, "because", age_s=9999)
    assert (seen(run).state, seen(run).reason) == (state, "because")


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_done_with_its_evaluation(run, kind):
    set_status(run, "done", age_s=9999)
    set_summary(run, kind)
    assert seen(run, kind).state == "done"


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_stage_of_a_run_makes_what_it_is_done_with(run, kind):
    assert stages(planned(kind), run)[-1].result == result(kind)


@pytest.mark.parametrize("kind, other", [("train", "untrained"), ("untrained", "plain"), ("plain", "train")])
def test_a_run_that_was_done_as_another_kind_is_to_be_run(run, kind, other):
    set_status(run, "done")
    set_summary(run, other)
    assert (seen(run, kind).state, seen(run, kind).reason) == ("queued", NO_RESULT)


def test_a_running_run_is_told_with_its_progress(run):
    set_status(run, "running", "train")
    set_progress(run)
    assert seen(run) == State("x-s42", "running", "train", "train", 1, 3, None, None, 40.0)


def test_between_two_signs_of_life_a_run_is_not_lost(run):
    set_status(run, "running", "train", age_s=HEARTBEAT_S + 2)
    assert seen(run).state == "running"


def test_without_signs_of_life_a_running_run_is_lost(run):
    set_status(run, "running", "train", age_s=LOST_S + 1)
    assert (seen(run).state, seen(run).reason) == ("lost", LOST)


@pytest.mark.parametrize("state", ["queued", "done", "failed", "timeout"])
def test_the_progress_of_a_run_that_does_not_run_is_not_told(run, state):
    set_status(run, state)
    set_progress(run)
    assert (seen(run).total, seen(run).eta_s) == (0, None)


def test_no_time_left_is_promised_before_the_first_step(run):
    set_status(run, "running")
    set_progress(run, done=0, eta_s=None)
    assert seen(run).eta_s is None


@pytest.mark.parametrize("text", ["", '{"state": "runn', "[1]", "null", "\0"])
def test_a_damaged_status_reads_as_one_that_is_missing(run, text):
    (run / "status.json").write_text(text)
    assert seen(run).state == "queued"


@pytest.mark.parametrize("text", ["", '{"phase": "tr', "[]"])
def test_a_damaged_progress_file_hides_no_state(run, text):
    set_status(run, "running", "train")
    (run / "progress.json").write_text(text)
    assert seen(run) == State("x-s42", "running", "train")


# --- what it has measured


def test_the_last_training_step_is_measured_until_there_is_an_evaluation(run):
    append_jsonl(run / "metrics.jsonl", [{"correct": 0.1, "leaf_tokens_mean": 10.0}, {"correct": 0.2, "leaf_tokens_mean": 20.0}])
    assert (seen(run).correct, seen(run).tokens) == (0.2, 20.0)


def test_an_evaluation_counts_over_training_steps(run):
    append_jsonl(run / "metrics.jsonl", [{"correct": 0.1, "leaf_tokens_mean": 10.0}])
    set_summary(run)
    assert (seen(run).correct, seen(run).tokens) == (0.75, 1234.0)


def test_an_evaluation_of_another_kind_does_not_count(run):
    set_summary(run, "untrained")
    assert seen(run).correct is None and seen(run, "untrained").correct == 0.75


def test_a_half_written_evaluation_does_not_count(run):
    append_jsonl(run / "metrics.jsonl", [{"correct": 0.1, "leaf_tokens_mean": 10.0}])
    (run / "eval/trained").mkdir(parents=True)
    (run / "eval/trained/summary.json").write_text('{"heldout": {"corr')
    assert seen(run).correct == 0.1


def test_the_last_row_is_read(tmp_path):
    append_jsonl(tmp_path / "f", [{"a": 1}, {"a": 2}])
    assert last_jsonl(tmp_path / "f") == {"a": 2}


@pytest.mark.parametrize("text", [None, "", "\n", '{"a": 1}', "[1]\n3\n", "\xff\xfe\n"])
def test_where_there_is_no_whole_row_there_is_none(tmp_path, text):
    if text is not None:
        (tmp_path / "f").write_text(text, encoding="latin-1")
    assert last_jsonl(tmp_path / "f") == {}


@pytest.mark.parametrize("cut", ['{"a": ', '{"a": 2}', "{", "\xff"])
def test_a_last_row_that_is_being_written_is_left_out(tmp_path, cut):
    (tmp_path / "f").write_text('{"a": 1}\n' + cut, encoding="latin-1")
    assert last_jsonl(tmp_path / "f") == {"a": 1}


def test_the_last_row_of_a_long_file_is_found_without_reading_it_all(tmp_path):
    append_jsonl(tmp_path / "f", [{"a": 1}])
    os.truncate(tmp_path / "f", 1 << 36)  # a hole: nobody could read that
    with open(tmp_path / "f", "ab") as file:
        file.write(b"\n" + json.dumps({"a": "x" * (runs.LAST_BYTES - 100)}).encode() + b"\n")
    assert len(last_jsonl(tmp_path / "f")["a"]) == runs.LAST_BYTES - 100


def test_states_are_counted_in_the_order_of_a_run_s_life():
    states = [State("", name) for name in ("lost", "done", "running", "done", "queued")]
    assert list(count(states).items()) == [("queued", 1), ("running", 1), ("done", 2), ("lost", 1)]


# --- how it is shown

RUNNING = State("a", "running", "train", "train", 3, 10, 0.25, 12345.0, 200.0)


def test_a_row_of_the_table():
    assert live.cells(RUNNING) == ("a", "running", "train 3/10", "25.0 %", "12\u202f345", "3 minutes", "train")


def test_what_is_not_known_is_left_empty():
    assert live.cells(State("a", "queued")) == ("a", "queued", "", "", "", "", "")


def test_a_reason_cannot_move_the_cursor_of_a_terminal():
    assert live.cells(State("a", "failed", "x\x1b[2J\x1b[31my\r\x07z\x9b"))[-1] == "xyz"


def test_markup_escapes_what_runs_say():
    page = live.markup([State("<b>a", "failed", HOSTILE)])
    assert "<script" not in page and "<b>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; [bold red]x[/bold red] [/] &amp; red" in page


def test_a_terminal_shows_what_runs_say_as_it_is():
    from rich.console import Console

    console = Console(file=io.StringIO(), width=200, force_terminal=True)
    console.print(live.table([State("[red]a", "failed", HOSTILE)]))
    written = console.file.getvalue()
    assert "[red]a" in written and "[bold red]x[/bold red] [/] & red" in written and "\x1b[31m" not in written


def test_the_table_has_a_row_a_run():
    table = live.state_table([RUNNING, State("b", "queued")])
    assert list(table["run"]) == ["a", "b"] and list(table.columns) == list(live.HEADINGS)


def lines(*steps: list[State]) -> list[str]:
    """What is written where the states are shown in turn."""
    written = []
    with live.Lines(written.append) as show:
        for states in steps:
            show(states)
    return written


def test_a_line_is_written_for_each_change_alone():
    queued, done = State("a", "queued"), State("a", "done", correct=0.5)
    written = lines([queued], [RUNNING], [RUNNING], [State("a", "running", "train", "train", 4, 10)], [done], [done])
    assert written == ["a: running, 25.0 % right, train", "a: done, 50.0 % right"]


def test_a_run_that_fails_again_is_told_again():
    failed = State("a", "failed", "because")
    assert lines([failed], [State("a", "queued", "was failed: because")], [failed]).count("a: failed, because") == 2


def test_each_run_has_lines_of_its_own():
    assert lines([State("a", "done"), State("b", "timeout", "slow")]) == ["a: done", "b: timeout, slow"]


def test_a_widget_shows_the_table_without_a_browser():
    with live.Widget() as show:
        show([RUNNING])
        show([State("a", "failed", HOSTILE)])
    assert show.html.value == live.markup([State("a", "failed", HOSTILE)])


def test_a_widget_is_not_sent_what_it_shows_already():
    widget, sent = live.Widget(), []
    widget.html.observe(lambda change: sent.append(change["new"]), "value")
    widget([RUNNING])
    widget([RUNNING])
    assert sent == [live.markup([RUNNING])]


@pytest.mark.parametrize(
    "interactive, terminal, kind", [(True, True, live.Widget), (False, True, live.Terminal), (False, False, live.Lines)]
)
def test_the_view_fits_the_place(monkeypatch, interactive, terminal, kind):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    assert type(live.live(interactive)) is kind


def test_a_terminal_draws_the_newest_table(monkeypatch):
    from rich.console import Console

    view = live.Terminal()
    view._live.console = Console(file=io.StringIO(), width=120)
    with view:
        view([RUNNING])
    assert "train 3/10" in view._live.console.file.getvalue()


# --- GPUs

HOLDER = """
import sys
from pathlib import Path
from rlmlib.sweep.leases import Gpus
gpus = Gpus(sys.argv[2:], Path(sys.argv[1]))
print(gpus.take(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """A process that has taken the first GPU."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path), "0", "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout.readline() == "0\n"
        yield process
        process.kill()


def test_gpus_are_taken_in_their_order_until_none_is_left(tmp_path):
    gpus = Gpus(["3", "1"], tmp_path)
    assert [gpus.take(), gpus.take(), gpus.take()] == ["3", "1", None]


def test_a_gpu_that_was_given_back_can_be_taken_again(tmp_path):
    gpus = Gpus(["0", "1"], tmp_path)
    gpus.take(), gpus.take()
    gpus.give_back("1")
    assert [gpus.take(), gpus.take()] == ["1", None]


def test_two_sweeps_of_a_machine_never_have_one_gpu(tmp_path):
    one, other = Gpus(["0", "1", "2"], tmp_path), Gpus(["2", "1", "0"], tmp_path)
    taken = [one.take(), other.take(), one.take(), other.take(), one.take()]
    assert sorted(filter(None, taken)) == ["0", "1", "2"] and taken[3:] == [None, None]


def test_a_gpu_of_another_process_is_not_taken(tmp_path, holder):
    assert Gpus(["0", "1"], tmp_path).take() == "1"


def test_a_process_that_is_killed_frees_its_gpu(tmp_path, holder):
    gpus = Gpus(["0"], tmp_path)
    assert gpus.take() is None
    holder.kill()
    holder.wait(timeout=30)
    assert gpus.take() == "0"


def test_a_lease_is_not_passed_on_to_a_child(tmp_path):
    gpus = Gpus(["0"], tmp_path)
    gpus.take()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False):
        gpus.give_back("0")
        assert Gpus(["0"], tmp_path).take() == "0"


def test_other_users_can_share_the_gpus(tmp_path):
    old = os.umask(0o077)
    try:
        Gpus(["0"], tmp_path / "gpus").take()
    finally:
        os.umask(old)
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "gpus", tmp_path / "gpus/0.lock")]
    assert modes == [0o777, 0o644]


def test_a_lock_of_another_user_is_only_read(tmp_path, monkeypatch):
    Gpus(["0"], tmp_path).take()
    modes = []
    monkeypatch.setattr("builtins.open", lambda path, mode="r", **_: modes.append(mode) or io.FileIO(path, mode))
    assert Gpus(["0"], tmp_path).take() == "0" and modes == ["r"]


def test_a_gpu_may_have_a_name_like_a_path(tmp_path):
    assert Gpus(["MIG-GPU-1/2/0"], tmp_path).take() == "MIG-GPU-1/2/0"


def test_blanks_around_names_do_not_make_another_gpu(tmp_path):
    assert Gpus([" 1"], tmp_path).take() == "1" and Gpus(["1 "], tmp_path).take() is None


@pytest.mark.parametrize("names", [[""], ["0", " "], ["0", "1", "0"], ["1", " 1"]])
def test_gpus_that_are_unnamed_or_named_twice_are_refused(tmp_path, names):
    with pytest.raises(ConfigError, match="name each GPU once"):
        Gpus(names, tmp_path)


# --- what a sweep will take

CPU = Device("cpu", "a processor", 8 << 30, here=False)
SECONDS = 0.1  # of a rollout of the tiny policy, as work.py has it
TRAINED = 2 * (2 / 0.5) * 4  # rollouts of params/smoke.yaml: steps, groups at the assumed share of useful ones, rollouts of a group
QUESTIONS = 6 + 3
UNKNOWN = {"policy.model": "some/model"}
PAID = {"leaf.engine": "gemini", "leaf.model": "gemini-3.5-flash"}


@pytest.fixture
def cost(run, monkeypatch):
    """Of a run: (hours, dollars)."""

    def of(kind: str = "train", **changes):
        found = plan.cost_of(planned(kind, **changes), run, CPU)
        return found.hours, found.dollars

    return of


@pytest.mark.parametrize(
    "kind, changes, rollouts",
    [
        ("train", {}, TRAINED + 2 * QUESTIONS),
        ("train", {"evaluation.greedy": True}, TRAINED + 3 * QUESTIONS),
        ("untrained", {}, 2 * QUESTIONS),
        ("plain", {"evaluation.greedy": True}, QUESTIONS),
    ],
)
def test_hours_count_the_rollouts_of_training_and_evaluation(cost, kind, changes, rollouts):
    assert cost(kind, **changes)[0] == pytest.approx(rollouts * SECONDS / 3600)


def test_dollars_grow_with_the_rollouts(cost):
    assert cost("train", **PAID)[1] / cost("untrained", **PAID)[1] == pytest.approx((TRAINED + 2 * QUESTIONS) / (2 * QUESTIONS))


def test_a_done_run_costs_nothing(cost, run):
    set_status(run, "done")
    set_summary(run)
    assert cost(**PAID) == (0.0, 0.0)


def test_a_trained_run_is_still_to_be_evaluated(cost, run):
    (run / "checkpoints/step_2").mkdir(parents=True)
    assert cost()[0] == pytest.approx(2 * QUESTIONS * SECONDS / 3600)


def test_what_is_not_known_is_no_number(cost):
    assert cost(**UNKNOWN) == (None, 0.0)
    assert cost(**{"leaf.engine": "openai", "leaf.model": "mine"})[1] is None


def table(tmp_path, monkeypatch, **extra):
    """The plan of a sweep of these runs."""
    monkeypatch.setattr(preflight, "device_here", lambda: CPU)
    file = params_file.validate({"name": "toy", "base": "smoke.yaml", "runs": extra}, grid.SweepFile)
    return plan.plan_table(grid.resolve(file, ROOT / "params"), tmp_path)


def test_the_plan_has_a_row_a_run(tmp_path, monkeypatch):
    found = table(tmp_path, monkeypatch, a={"set": {"training.lr": 0.5}}, b={"kind": "plain"})
    assert found[["run", "kind", "changes", "state"]].values.tolist() == [
        ["a-s42", "train", "training.lr 0.5", "queued"],
        ["b-s42", "plain", "none", "queued"],
    ]


def test_the_plan_can_be_written_where_nothing_is_known(tmp_path, monkeypatch):
    found = table(tmp_path, monkeypatch, a={"set": UNKNOWN})
    assert "not known" in found.to_string(na_rep="not known", float_format="%.2f")


def frame(*rows: tuple):
    """A plan of runs of (state, hours, dollars)."""
    import pandas as pd

    return pd.DataFrame(rows, columns=["state", "hours", "dollars"]).astype({"hours": float, "dollars": float})


def test_the_plan_is_told_in_a_sentence():
    text = plan.told(frame(("queued", 3.0, 1000.0), ("failed", 5.0, 234.5), ("done", 0.0, 0.0)), 2)
    assert text == "3 runs, 2 to do, 2 at a time: about 5.0 hours, about 1,234.50 dollars"


def test_runs_side_by_side_share_the_time():
    assert "about 4.0 hours" in plan.told(frame(*[("queued", 2.0, 0.0)] * 4), 2)


def test_it_takes_at_least_as_long_as_the_longest_run():
    assert "about 2.0 hours" in plan.told(frame(("queued", 2.0, 0.0)), 8)


def test_runs_of_which_nothing_is_known_are_told():
    text = plan.told(frame(("queued", 2.0, None), ("queued", None, None), ("queued", None, 7.0)), 1)
    assert "about 2.0 hours (not known for 2 runs)" in text
    assert "about 7.00 dollars (not known for 2 runs)" in text


def test_where_no_run_is_known_no_number_is_told():
    assert plan.told(frame(("queued", None, 0.0)), 1) == "1 run, 1 to do, 1 at a time: hours not known, about 0.00 dollars"


def test_a_finished_sweep_takes_nothing():
    assert plan.told(frame(("done", 0.0, 0.0)), 2).endswith("0 to do, 2 at a time: about 0.0 hours, about 0.00 dollars")
