"""The longest test, the rebuild of the tiny policy, works in the background while the others mostly wait for clocks."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from rlmlib.notebook import ROOT

settings.register_profile("no clock", deadline=None)  # a busy machine is no fault of the code
settings.load_profile("no clock")

REBUILD_TEST = "test_rebuilt_policy_behaves_like_the_shipped_one"
SCRIPT = Path(__file__).with_name("rebuild.py")
LIMIT_S = 1800


class Rebuild:
    """The cold start at the lowest priority, with one thread while the other core is the tests'."""

    def __init__(self, folder):
        self.weights, self.log = folder / "weights", folder / "log"
        params = folder / "params.yaml"
        params.write_text((ROOT / "params/tiny.yaml").read_text() + "policy:\n  threads: 1\n")
        command = [sys.executable, "-u", SCRIPT, "--params", str(params), "--out", str(self.weights)]
        environment = os.environ | {"OMP_WAIT_POLICY": "passive"}  # threads that spin for one another are slow where a core is taken
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log, preexec_fn=self._prepare)

    @staticmethod
    def _prepare():
        os.nice(19)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})  # it waits until the script is ready for it

    def result(self):
        """The folder of the new weights, once they are there. Called when nothing else is left to do."""
        self.process.send_signal(signal.SIGUSR1)
        code = self.process.wait(timeout=LIMIT_S)
        assert code == 0, self.log.read_text()
        return self.weights

    def stop(self):
        self.process.kill()
        self.process.wait(timeout=30)


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.name == REBUILD_TEST)  # stable: all others keep their order


@pytest.fixture(scope="session")
def rebuild(tmp_path_factory):
    running = Rebuild(tmp_path_factory.mktemp("rebuild"))
    yield running
    running.stop()


@pytest.fixture(scope="session", autouse=True)
def start_early(request):
    """Starts the rebuild before the first test where it is among the chosen ones."""
    if any(item.name == REBUILD_TEST for item in request.session.items):
        request.getfixturevalue("rebuild")
