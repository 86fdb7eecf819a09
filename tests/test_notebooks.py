"""The notebooks: their fixed skeleton, and that papermill runs each of them on smoke parameters."""

import json
import re
import statistics
from pathlib import Path

import nbformat
import papermill
import pytest

from rlmlib.errors import RlmError
from rlmlib.execute import execute
from rlmlib.notebook import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
HEADINGS = ["Question", "Parameters", "Setup", "Run", "Results", "What we learned", "Next"]
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)


def code(notebook) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def test_the_notebooks_of_the_demo_are_there():
    names = {path.stem for path in NOTEBOOKS}
    assert {"00_quickstart", "30_reward", "40_train", "50_evaluate", "80_run_report"} <= names


@every_notebook
def test_headings_are_the_fixed_ones_in_order(path):
    notebook = nbformat.read(path, 4)
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS


@every_notebook
def test_first_cell_says_time_hardware_cost_inputs_and_outputs(path):
    first = nbformat.read(path, 4).cells[0]
    assert first.cell_type == "markdown"
    assert all(word in first.source for word in ("time", "hardware", "cost", "inputs", "outputs"))


@every_notebook
def test_is_committed_without_outputs_and_is_valid(path):
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in cells)
    assert "injected-parameters" not in json.dumps(notebook)


@every_notebook
def test_has_one_parameters_cell_that_papermill_can_read(path):
    cells = [cell for cell in nbformat.read(path, 4).cells if "parameters" in cell.metadata.get("tags", [])]
    assert len(cells) == 1
    lines = [line for line in cells[0].source.splitlines() if line.strip()]
    assert all("  # " in line and line.count("=") == 1 for line in lines)
    assert len(papermill.inspect_notebook(str(path))) == len(lines)


@every_notebook
def test_code_cells_are_short_and_define_nothing(path):
    cells = code(nbformat.read(path, 4))
    lengths = [len(cell.splitlines()) for cell in cells]
    assert statistics.median(lengths) <= 8
    assert max(lengths) <= 40
    assert not any(re.search(r"^(def|class) ", cell, re.MULTILINE) for cell in cells)


SMALL = {"00_quickstart": {"rollouts": 2}, "30_reward": {}}


@pytest.mark.parametrize("name", SMALL)
def test_runs_alone(name, tmp_path):
    parameters = SMALL[name]
    execute(ROOT / f"notebooks/{name}.ipynb", tmp_path / "out.ipynb", parameters)
    executed = nbformat.read(tmp_path / "out.ipynb", 4)
    assert all(cell.execution_count for cell in executed.cells if cell.cell_type == "code")


def test_a_misspelt_notebook_parameter_is_refused(tmp_path):
    with pytest.raises(RlmError, match="has no parameter lable.*label"):
        execute(ROOT / "notebooks/50_evaluate.ipynb", tmp_path / "out.ipynb", {"lable": "base"})


def test_every_command_and_path_in_the_readme_exists():
    readme = (ROOT / "README.md").read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make ([a-z-]+)", readme, re.MULTILINE)) <= targets
    paths = re.findall(r"`((?:notebooks|params|rlmlib|tests|tools)/[\w./-]+)`", readme)
    assert paths
    assert [p for p in paths if not Path(ROOT, p).exists()] == []
