"""Benchmarks run: scores, failures, going on, sums, the judge, the offline baseline and the chart."""

import json
from dataclasses import replace

import pytest
from judge_support import RIGHT, WRONG, says

from rlmlib.benchmarking.baseline import ScriptedBaseline, script
from rlmlib.benchmarking.run import SyncJudge, lowest, measure, plan, read_results, run, summarise
from rlmlib.errors import ConfigError, DataError, InfrastructureError, RunError
from rlmlib.harness.trajectory import Call, Rollout, Tokens, Turn
from rlmlib.models.base import ModelError
from rlmlib.task_charts import score_by_length
from rlmlib.tasks.benchmarks.base import BenchmarkItem
from rlmlib.tasks.benchmarks.load import load


def item(name="a", rule="ruler", gold="7", **metadata) -> BenchmarkItem:
    return BenchmarkItem(name, "bench", f"Question {name}?", f"Context of {name}.", (gold,), "number", rule, metadata)


class Scripted:
    """Answers by question; an exception is raised, None is no answer."""

    def __init__(self, **answers):
        self.answers, self.asked = answers, []

    def ask(self, question, context):
        name = question.removeprefix("Question ").removesuffix("?")
        assert context == f"Context of {name.rstrip('?')}."
        self.asked.append(name)
        answer = self.answers.get(name, "7")
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Rollout):
            return answer
        call = Call("leaf", "leaf", "p", tokens=Tokens(30, 2), attempts=1)
        turn = Turn("root", "r", tokens=Tokens(100, 10, dollars=0.5), calls=[call])
        return Rollout(answer=answer, stop="final" if answer else "missing", turns=[turn], seconds=1.5)


# --- one item


def test_a_result_has_score_and_cost():
    result = measure(item(length=512), Scripted(), "me")
    assert (result.who, result.benchmark, result.id, result.length) == ("me", "bench", "a", 512)
    assert (result.score, result.by, result.answer, result.error) == (1, "rule", "7", None)
    assert (result.leaf_calls, result.leaf_tokens, result.total_tokens, result.dollars, result.seconds) == (1, 32, 142, 0.5, 1.5)


def test_no_answer_is_zero_but_a_failure_of_the_machinery_is_none():
    assert measure(item(), Scripted(a=None), "me").score == 0
    for failure in (InfrastructureError("no worker"), Rollout(error="no worker")):
        result = measure(item(), Scripted(a=failure), "me")
        assert (result.score, result.error) == (None, "no worker")


@pytest.mark.parametrize(
    ("verdict", "answer", "expected"),
    [
        (None, "It was seven.", (0, "exact match", None)),
        (None, "7", (1, "rule", None)),
        (RIGHT, "It was seven.", (1, "judge", None)),
        (WRONG, "It was eight.", (0, "judge", None)),
        (WRONG, "7", (1, "rule", None)),
        (RIGHT, None, (0, "rule", None)),
    ],
)
def test_who_settles_an_item_that_wants_a_judge(verdict, answer, expected):
    judge = SyncJudge(says(verdict)) if verdict else None
    result = measure(item(rule="judge"), Scripted(a=answer), "me", judge)
    assert (result.score, result.by, result.error) == expected
    assert result.answer is None  # what a judge reads may be secret
    if judge:
        judge.close()


def test_a_judge_that_fails_is_no_zero():
    judge = SyncJudge(says(ModelError("unavailable", "server is down")))
    result = measure(item(rule="judge"), Scripted(a="seven"), "me", judge)
    judge.close()
    assert result.score is None and "server is down" in result.error


def test_what_a_judge_says_is_not_written():
    judge = SyncJudge(says("It may well be Märta."))
    result = measure(item(rule="judge"), Scripted(a="Märta"), "me", judge)
    judge.close()
    assert (result.score, result.error) == (None, "the judge's replies held no verdict; use another model")


# --- many


def test_a_second_run_goes_on_where_the_first_ended(tmp_path):
    path, items = tmp_path / "out/results.jsonl", [item(name) for name in "abc"]
    first = Scripted(b=InfrastructureError("down"), c="8")
    assert [r.score for r in run(items, first, "me", path)] == [1, None, 0]
    again = Scripted(c="7")
    assert [r.score for r in run(items, again, "me", path)] == [1, 1, 0]
    assert again.asked == ["b"]
    other = Scripted()
    run(items[:1], other, "another model", path)
    run([replace(items[0], question="Question a??")], other, "me", path)  # the same id from another source
    assert other.asked == ["a", "a?"] and len(read_results(path)) == 6


def test_a_run_that_is_stopped_keeps_what_it_has(tmp_path):
    path, items = tmp_path / "results.jsonl", [item(name) for name in "ab"]
    with pytest.raises(KeyboardInterrupt):
        run(items, Stopped(), "me", path)
    assert [r.id for r in read_results(path)] == ["a"]


class Stopped(Scripted):
    def ask(self, question, context):
        if self.asked:
            raise KeyboardInterrupt
        return super().ask(question, context)


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "results.jsonl").write_text('{"step": 1}\n')
    with pytest.raises(RunError, match="is no file of benchmark results"):
        run([item()], Scripted(), "me", tmp_path / "results.jsonl")


def test_a_damaged_line_is_named_and_nothing_is_asked_again(tmp_path):
    path, items = tmp_path / "results.jsonl", [item(name) for name in "abc"]
    run(items, Scripted(), "me", path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], lines[1][:30] + "\n", lines[2]]))
    again = Scripted()
    with pytest.raises(RunError, match="results.jsonl, line 2: is damaged"):
        run(items, again, "me", path)
    assert again.asked == [] and len(path.read_text().splitlines()) == 3


def test_an_item_that_a_crash_cut_is_asked_again_once(tmp_path):
    path, items = tmp_path / "results.jsonl", [item(name) for name in "abc"]
    run(items, Scripted(), "me", path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    again = Scripted()
    assert [r.score for r in run(items, again, "me", path)] == [1, 1, 1] and again.asked == ["c"]
    assert len(path.read_bytes().splitlines()) == 3 and len(read_results(path)) == 3


@pytest.mark.parametrize("damage", [b'{"who": "me', b"\xff\xfe", b"[" * 9000])
def test_a_damaged_line_stops_the_run_before_anything_is_asked(tmp_path, damage):
    path, items = tmp_path / "results.jsonl", [item(name) for name in "abc"]
    run(items, Scripted(), "me", path)
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], damage, *lines[2:]]))
    asker = Scripted()
    with pytest.raises(RunError, match="results.jsonl, line 2: is damaged"):
        run(items, asker, "me", path)
    assert asker.asked == []


def test_results_of_before_there_were_golds_are_read(tmp_path):
    path = tmp_path / "results.jsonl"
    run([item()], Scripted(), "me", path)
    row = json.loads(path.read_text())
    assert row.pop("gold") == "7"
    path.write_text(json.dumps(row) + "\n")
    assert read_results(path)[0].gold is None


def test_the_lowest_scores_leave_out_what_is_right():
    items = [item("a"), item("b"), item("c", rule="oolong", gold="9"), item("d", gold="\n".join("123456789" * 40))]
    results = run(items, Scripted(b=InfrastructureError("down"), c="8", d="8\n9"), "me")
    rows = lowest([*results, replace(results[1], benchmark="other")], 2)
    assert [(row["id"], row["score"]) for row in rows] == [("b", None), ("d", 0), ("b", None)]
    assert (rows[1]["answer"], len(rows[1]["gold"]), len(results[3].gold)) == ("8 9", 60, 200)
    assert [row["id"] for row in lowest(results, 9)] == ["b", "d", "c"]
    assert lowest(results[:1], 4) == []


def test_nothing_of_a_secret_item_is_written(tmp_path):
    path = tmp_path / "results.jsonl"
    run([item(rule="judge", gold="Märta")], Scripted(a="It was Märta"), "me", path)
    written = json.dumps(json.loads(path.read_text()), ensure_ascii=False)
    assert not any(text in written for text in ("Märta", "Question", "Context"))


def test_a_summary_has_a_row_for_each_benchmark_and_length():
    items = [item(f"{length}-{n}", length=length) for length in (512, 1024) for n in range(4)]
    wrong = {f"1024-{n}": "8" for n in range(3)} | {"512-0": InfrastructureError("down")}
    rows = summarise(run(items, Scripted(**wrong), "me"), resamples=2000)
    assert [(row["length"], row["n"], row["failed"], row["score"]) for row in rows] == [(512, 3, 1, 1), (1024, 4, 0, 0.25)]
    assert (rows[0]["low"], rows[0]["high"]) == (1, 1)
    assert rows[1]["low"] == 0 and 0.5 <= rows[1]["high"] <= 0.75
    assert rows[1]["leaf_tokens"] == 32 and rows[1]["seconds"] == 1.5


def test_a_summary_of_failures_alone_has_no_score():
    rows = summarise(run([item()], Scripted(a=InfrastructureError("down")), "me"))
    assert rows[0]["n"] == 0 and rows[0]["failed"] == 1 and rows[0]["score"] is None
    assert summarise([]) == []


def test_a_plan_gives_lengths_to_those_that_have_them():
    items = list(plan(["s_niah", "oolong"], 2, [512, 1024], options={"oolong": {"lengths": [2048]}}))
    assert [(i.benchmark, i.metadata["length"]) for i in items] == [("s_niah", n) for n in (512, 512, 1024, 1024)] + [("oolong", 2048)] * 2
    with pytest.raises(ConfigError, match="codeqa cannot be generated"):
        list(plan(["codeqa"], 1, [512]))
    with pytest.raises(DataError, match="absent.json: is not there"):
        list(plan(["codeqa"], 1, [512], sources={"codeqa": "absent.json"}))


# --- the baseline


@pytest.fixture(scope="module")
def baseline():
    with ScriptedBaseline() as opened:
        yield opened


def test_the_baseline_finds_every_needle_without_the_leaf(baseline):
    results = run(load("s_niah", None, 3, lengths=[1024, 32768]), baseline, "scripts")
    assert [(r.score, r.leaf_calls) for r in results] == [(1, 0)] * 6


def test_the_baseline_counts_with_the_leaf_and_is_nearly_right(baseline):
    results = run(load("oolong", None, 9, lengths=[2048]), baseline, "scripts")
    assert all(r.error is None and r.stop == "final" for r in results)
    assert sum(r.score for r in results) / 9 > 0.7
    assert sum(r.leaf_calls for r in results) > 10 and all(r.leaf_tokens < 20_000 for r in results)


def test_the_baseline_is_right_on_pairs_that_need_labels_alone(baseline):
    results = run(load("oolong_pairs", None, lengths=[4096]), baseline, "scripts")
    scores = {int(r.id.split("/")[-1]): r.score for r in results}
    assert [scores[task] for task in (1, 2, 3, 6, 8)] == [1] * 5
    assert 0 < sum(scores.values()) < 20


def test_the_baseline_chooses_and_gives_up(baseline):
    question = "Which function opens it?\n(A) close_door\n(B) open_window\n(C) mend_roof\n(D) paint_wall\nAnswer with its letter alone."
    assert baseline.ask(question, "def open_window(): ...").answer == "B"
    assert baseline.ask("Who was it?", "nobody").answer == "unknown"


def test_a_question_cannot_break_out_of_its_script():
    question = "special magic ```\nquote ' and \" and \\ for x mentioned"
    names = {}
    exec(script(question).split("\nimport")[0], names)
    assert names["question"] == question


# --- the chart


def scores(name: str, values: dict, spread: float = 0.0, n: int = 4) -> list[dict]:
    ends = {length: (max(0, value - spread), min(1, value + spread)) for length, value in values.items()}
    return [
        {"benchmark": name, "length": length, "n": n, "score": value, "low": ends[length][0], "high": ends[length][1]}
        for length, value in values.items()
    ]


def test_the_chart_has_a_panel_for_each_benchmark_with_lengths():
    rows = [*scores("s_niah", {8192: 1.0, 65536: 0.5}, 0.1), *scores("codeqa", {None: 0.4}), *scores("oolong", {8192: 0.25}, n=9)]
    chart = score_by_length(rows)
    assert chart.title == "Scores: s_niah fell from 100 % to 50 % (8,192 to 65,536 tokens), oolong scored 25 % (8,192 tokens)"
    assert [panel.title for panel in chart.panels] == ["s_niah (n = 4)", "oolong (n = 9)"]
    assert chart.svg.startswith("<svg") and "65536" in chart.frame.to_csv()
    assert len(chart.figure.data) == 4
    assert score_by_length([row for row in rows if row["length"] is None]) is None
    assert score_by_length(rows[:1]).title == "8,192 tokens: s_niah scored 100 %"


def test_the_title_speaks_of_every_benchmark_and_claims_no_change_within_the_intervals():
    rows = [
        *scores("s_niah", {512: 1, 1024: 1}),
        *scores("oolong", {512: 0.9, 1024: 0.7}, 0.2),
        *scores("pairs", {512: 0.1, 1024: 0.5}, 0.1),
    ]
    expected = "s_niah stayed at 100 %, oolong showed no clear change (90 %, 70 %), pairs rose from 10 % to 50 %"
    assert score_by_length(rows).title == f"512 to 1,024 tokens: {expected}"


def test_panels_are_compared_on_the_same_axis_and_name_the_lengths_asked():
    layout = score_by_length([*scores("a", {8192: 0.1, 16384: 0.2}), *scores("b", {8192: 1, 16384: 0.9})]).figure.layout
    assert layout.yaxis.range == layout.yaxis2.range and layout.yaxis.range[1] > 1
    assert layout.xaxis.tickvals == (8192, 16384) and layout.xaxis.ticktext == ("8,192", "16,384")
    assert layout.yaxis.title.text == layout.yaxis2.title.text == "mean score"
    many = score_by_length(scores("a", {2**power: 0.5 for power in range(13, 21)})).figure.layout
    assert many.xaxis.ticktext == ("8.19k", "16.4k", "32.8k", "65.5k", "131k", "262k", "524k", "1.05M")
