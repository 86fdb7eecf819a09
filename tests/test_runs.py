"""The run directory: atomic writes, whole lines, one process at a time, nothing of another run overwritten."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rlmlib import config, params_file, runs
from rlmlib.errors import RunError
from rlmlib.progress import Progress

ROOT = Path(__file__).parents[1]


def params(**changes) -> config.Params:
    return config.validate(params_file.override({"name": "x"}, changes))


def full(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


# --- files appear whole or not at all


def test_text_is_written_as_it_is(tmp_path):
    runs.write_text(tmp_path / "f", "café \ud800 ☕\n")
    assert (tmp_path / "f").read_bytes() == "café \ud800 ☕\n".encode("utf-8", "surrogatepass")


def test_write_makes_the_folders_it_needs(tmp_path):
    runs.write_text(tmp_path / "a/b/f", "x")
    assert (tmp_path / "a/b/f").read_text() == "x"


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_full_disk_keeps_the_old_file(tmp_path, monkeypatch, broken):
    runs.write_text(tmp_path / "f", "old")
    monkeypatch.setattr(os, broken, full)
    with pytest.raises(RunError):
        runs.write_text(tmp_path / "f", "new")
    assert (tmp_path / "f").read_text() == "old"


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_full_disk_leaves_no_temporary_file(tmp_path, monkeypatch, broken):
    monkeypatch.setattr(os, broken, full)
    with pytest.raises(RunError):
        runs.write_text(tmp_path / "f", "new")
    assert names(tmp_path) == []


def test_full_disk_is_told_in_one_line_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match="f: the disk is full; free some space and run again") as caught:
        runs.write_text(tmp_path / "f", "new")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("number", [errno.EDQUOT, errno.EFBIG])
def test_quota_and_size_limit_are_told_like_a_full_disk(tmp_path, monkeypatch, number):
    def over(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", over)
    with pytest.raises(RunError, match="disk is full"):
        runs.write_text(tmp_path / "f", "new")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_read_only_folder_is_told_in_one_line(tmp_path, monkeypatch, number):
    def refuse(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(RunError, match="cannot be written .*make it writable or name another folder"):
        runs.write_text(tmp_path / "f", "new")


def test_file_where_a_folder_is_needed_is_told_in_one_line(tmp_path):
    (tmp_path / "a").write_text("")
    with pytest.raises(RunError, match="cannot be written"):
        runs.write_text(tmp_path / "a/f", "x")


def test_other_failures_are_not_disguised(tmp_path, monkeypatch):
    def broken(*_):
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="input/output error"):
        runs.write_text(tmp_path / "f", "x")


# --- lines


def test_appended_rows_come_back(tmp_path):
    runs.append_jsonl(tmp_path / "f", [{"a": 1}])
    runs.append_jsonl(tmp_path / "f", [{"a": "\ud800\u2028\n"}, {"a": None}])
    assert runs.read_jsonl(tmp_path / "f") == [{"a": 1}, {"a": "\ud800\u2028\n"}, {"a": None}]


def test_file_that_is_not_there_has_no_rows(tmp_path):
    assert runs.read_jsonl(tmp_path / "f") == []


@pytest.mark.parametrize("cut", [1, 5, 8])
def test_half_written_last_line_is_ignored(tmp_path, cut):
    (tmp_path / "f").write_text('{"a": 1}\n' + '{"a": 23}'[:-cut])
    assert runs.read_jsonl(tmp_path / "f") == [{"a": 1}]


@pytest.mark.parametrize("damage", [b'{"a"', b"\xff", b"\0\0", b"[" * 100_000])
def test_damage_inside_is_named_and_no_end_of_the_file(tmp_path, damage):
    (tmp_path / "f").write_bytes(b'{"a": 1}\n' + damage + b'\n{"a": 3}\n')
    with pytest.raises(RunError, match="f, line 2: is damaged; restore the file, or cut it off before that line"):
        runs.read_jsonl(tmp_path / "f")


def test_a_file_written_as_a_whole_has_no_half_line(tmp_path):
    (tmp_path / "f").write_text('{"a": 1}\n{"a"')
    with pytest.raises(RunError, match="line 2"):
        runs.read_jsonl(tmp_path / "f", whole=True)


def test_rows_appended_after_a_half_written_line_are_not_lost(tmp_path):
    (tmp_path / "f").write_text('{"a": 1}\n{"a"')
    runs.append_jsonl(tmp_path / "f", [{"a": 2}])
    assert runs.read_jsonl(tmp_path / "f") == [{"a": 1}, {"a": 2}]


def test_rows_appended_after_a_lone_half_written_line_are_not_lost(tmp_path):
    (tmp_path / "f").write_text('{"a"')
    runs.append_jsonl(tmp_path / "f", [{"a": 2}])
    assert runs.read_jsonl(tmp_path / "f") == [{"a": 2}]


def test_full_disk_leaves_no_half_line(tmp_path, monkeypatch):
    runs.append_jsonl(tmp_path / "f", [{"a": 1}])
    with monkeypatch.context() as patched, pytest.raises(RunError):
        patched.setattr(os, "fsync", full)
        runs.append_jsonl(tmp_path / "f", [{"a": 2}])
    assert (tmp_path / "f").read_text() == '{"a": 1}\n'


def test_rewrite_replaces_all_rows(tmp_path):
    runs.append_jsonl(tmp_path / "f", [{"a": 1}, {"a": 2}])
    runs.rewrite_jsonl(tmp_path / "f", [{"a": 2}])
    assert runs.read_jsonl(tmp_path / "f") == [{"a": 2}]


# --- the directory


def test_new_run_holds_its_parameters(tmp_path):
    run = runs.open_run(tmp_path / "r", params(**{"training.steps": 7}))
    assert run.params.training.steps == 7


def test_new_run_holds_its_environment(tmp_path):
    run = runs.open_run(tmp_path / "r", params())
    assert {"python", "cores", "revision", "packages"} <= json.loads((run / "env.json").read_text()).keys()


def test_same_parameters_go_on_with_the_run(tmp_path):
    runs.append_jsonl(runs.open_run(tmp_path / "r", params()) / "metrics.jsonl", [{"step": 0}])
    assert runs.open_run(tmp_path / "r", params()).metrics == [{"step": 0}]


def test_other_parameters_are_refused_with_each_key_named(tmp_path):
    runs.open_run(tmp_path / "r", params())
    with pytest.raises(RunError, match=r"\(policy.lora.rank, training.lr\)") as caught:
        runs.open_run(tmp_path / "r", params(**{"training.lr": 0.5, "policy.lora.rank": 3}))
    assert "\n" not in str(caught.value)


def test_refused_run_is_left_as_it_was(tmp_path):
    run = runs.open_run(tmp_path / "r", params())
    with pytest.raises(RunError):
        runs.open_run(tmp_path / "r", params(seed=7))
    assert run.params.seed == 42


def test_fresh_starts_over(tmp_path):
    run = runs.open_run(tmp_path / "r", params())
    runs.append_jsonl(run / "metrics.jsonl", [{"step": 0}])
    runs.write_text(run / "checkpoints/step_1/state.json", "{}")
    again = runs.open_run(tmp_path / "r", params(seed=7), fresh=True)
    assert (again.metrics, again.params.seed, (run / "checkpoints").exists()) == ([], 7, False)


def test_fresh_refuses_to_delete_a_folder_that_is_no_run(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(RunError, match="holds no run; nothing was deleted"):
        runs.open_run(tmp_path, params(), fresh=True)
    assert names(tmp_path) == ["thesis.txt"]


def test_fresh_accepts_an_empty_folder(tmp_path):
    assert runs.open_run(tmp_path, params(), fresh=True).params.name == "x"


def test_fresh_accepts_a_folder_that_is_not_there(tmp_path):
    assert runs.open_run(tmp_path / "new/run", params(), fresh=True).params.name == "x"


def test_fresh_does_not_follow_links_out_of_the_run(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/data").write_text("keep")
    run = runs.open_run(tmp_path / "r", params())
    (run / "link").symlink_to(tmp_path / "outside")
    runs.open_run(tmp_path / "r", params(), fresh=True)
    assert (tmp_path / "outside/data").read_text() == "keep" and not (run / "link").exists()


@pytest.mark.parametrize("fresh", [False, True])
def test_file_in_place_of_the_run_folder_is_refused(tmp_path, fresh):
    (tmp_path / "r").write_text("a file")
    with pytest.raises(RunError):
        runs.open_run(tmp_path / "r", params(), fresh=fresh)
    assert (tmp_path / "r").read_text() == "a file"


def test_reading_a_folder_that_is_no_run_says_what_to_do(tmp_path):
    with pytest.raises(RunError, match="not a run directory.*train or evaluate into it first"):
        _ = runs.RunDir(tmp_path).params


def test_status_of_a_new_run_is_empty(tmp_path):
    assert runs.RunDir(tmp_path).status == {}


def test_status_is_kept_with_a_heartbeat(tmp_path):
    run = runs.RunDir(tmp_path)
    run.set_status("failed", "no signal")
    assert (run.status["state"], run.status["reason"], run.status["heartbeat"] > 0) == ("failed", "no signal", True)


def test_context_is_stored_once(tmp_path):
    run = runs.RunDir(tmp_path)
    assert run.store_context("text") == run.store_context("text") and len(names(tmp_path / "contexts")) == 1


def test_stored_context_is_identical(tmp_path):
    run = runs.RunDir(tmp_path)
    text = "a\r\nb\0\ud800 é\n"
    name = run.store_context(text)
    assert (tmp_path / f"contexts/{name}.txt").read_bytes() == text.encode("utf-8", "surrogatepass")


# --- the lock


HOLDER = """
import sys, time
from rlmlib.runs import RunDir
with RunDir(sys.argv[1]).lock():
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of tmp_path."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_lock_excludes_a_second_process_and_names_the_first(tmp_path, holder):
    with pytest.raises(RunError, match=f"process {holder.pid} is working here"), runs.RunDir(tmp_path).lock(wait_s=0):
        pass


def test_lock_is_freed_by_kill_9(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with runs.RunDir(tmp_path).lock(wait_s=0):
        assert (tmp_path / ".lock").read_text() == str(os.getpid())


def test_fresh_waits_for_the_lock_before_it_deletes(tmp_path, holder, monkeypatch):
    runs.write_json(tmp_path / "params.json", {})
    monkeypatch.setattr(runs.RunDir.lock.__wrapped__, "__defaults__", (0,))
    with pytest.raises(RunError, match="is working here"):
        runs.open_run(tmp_path, params(), fresh=True)
    assert (tmp_path / "params.json").exists()


def test_lock_can_be_taken_again_after_it_was_given_back(tmp_path):
    run = runs.RunDir(tmp_path)
    with run.lock(wait_s=0):
        pass
    with run.lock(wait_s=0):
        assert (tmp_path / ".lock").read_text() == str(os.getpid())


def test_lock_is_given_back_after_an_error(tmp_path):
    run = runs.RunDir(tmp_path)
    with pytest.raises(ZeroDivisionError), run.lock(wait_s=0):
        _ = 1 / 0
    with run.lock(wait_s=0):
        assert (tmp_path / ".lock").exists()


def test_lock_in_a_place_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "a").write_text("")
    with pytest.raises(RunError, match="cannot be written"), runs.RunDir(tmp_path / "a/r").lock(wait_s=0):
        pass


# --- progress


def test_progress_is_written_for_whoever_watches(tmp_path):
    progress = Progress(tmp_path / "p.json", "train", 10)
    progress.update(5, "half")
    state = json.loads((tmp_path / "p.json").read_text())
    assert (state["phase"], state["done"], state["total"], state["note"]) == ("train", 5, 10, "half")


def test_no_time_is_promised_before_the_first_unit(tmp_path):
    assert Progress(tmp_path / "p.json", "train", 10, done=4).eta_s is None


def test_time_left_counts_only_what_was_done_since_the_start(tmp_path, monkeypatch):
    clock = iter([100.0, 106.0])
    monkeypatch.setattr("rlmlib.progress.time.monotonic", lambda: next(clock, 106.0))
    progress = Progress(tmp_path / "p.json", "train", 10, done=4)
    progress.done = 6
    assert progress.eta_s == pytest.approx(12.0)  # 3 s a unit, 4 units left


def test_no_time_is_left_at_the_end(tmp_path):
    progress = Progress(tmp_path / "p.json", "train", 10)
    progress.update(10)
    assert progress.eta_s == 0


def test_progress_is_shown_as_a_line(tmp_path):
    shown = []
    Progress(tmp_path / "p.json", "train", 10, show=shown.append).update(3, "note")
    assert shown[0] == "train 0/10" and shown[1].startswith("train 3/10, ") and shown[1].endswith(" left note")


def test_params_that_are_no_object_are_one_line(tmp_path):
    (tmp_path / "params.json").write_text("[1]")
    with pytest.raises(RunError, match="cannot be read"):
        runs.open_run(tmp_path, params())


def test_a_folder_that_holds_only_a_killed_write_can_be_started_over(tmp_path):
    (tmp_path / ".params.json.123.tmp").write_text("{")
    assert runs.open_run(tmp_path, params(), fresh=True).path == tmp_path
