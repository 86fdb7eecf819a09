"""A GPU has one holder on a machine, whatever ends a holder."""

import io
import os
import subprocess
import sys

import pytest

from rlmlib.errors import ConfigError
from rlmlib.notebook import ROOT
from rlmlib.sweep.leases import Gpus

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
