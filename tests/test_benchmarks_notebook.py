"""The notebook of the benchmarks, on parameters that take seconds."""

import nbformat
import pytest

from rlmlib.benchmarking.run import read_results
from rlmlib.errors import RlmError
from rlmlib.execute import execute
from rlmlib.notebook import ROOT

NOTEBOOK = ROOT / "notebooks/60_benchmarks.ipynb"


def test_the_notebook_runs_offline_and_goes_on(tmp_path):
    values = {"items": 2, "lengths": [1024, 2048], "out": str(tmp_path / "out")}
    execute(NOTEBOOK, tmp_path / "executed.ipynb", values)
    executed = nbformat.read(tmp_path / "executed.ipynb", 4)
    assert all(cell.execution_count for cell in executed.cells if cell.cell_type == "code")
    results = read_results(tmp_path / "out/results.jsonl")
    assert len(results) == 12 and {r.benchmark for r in results} == {"s_niah", "oolong", "oolong_pairs"}
    assert all(r.error is None for r in results)
    assert {path.name for path in (tmp_path / "out/figures").iterdir()} == {
        f"score_by_length.{kind}" for kind in ("json", "svg", "png", "csv")
    }
    tables = [
        output.data["text/html"] for cell in executed.cells for output in cell.get("outputs", []) if "text/html" in output.get("data", {})
    ]
    assert any(">gold</th>" in table for table in tables)


def test_a_notebook_with_a_bad_source_ends_in_one_line(tmp_path):
    values = {"benchmarks": ["codeqa"], "sources": {"codeqa": str(tmp_path / "absent.json")}, "out": str(tmp_path / "out")}
    with pytest.raises(RlmError, match="absent.json: is not there") as caught:
        execute(NOTEBOOK, tmp_path / "executed.ipynb", values)
    assert "\n" not in str(caught.value)
