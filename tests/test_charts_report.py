"""Charts and the report, on a small run directory that the real writers made."""

import dataclasses
import json
import re
import subprocess
import sys

import pytest

from rlmlib import charts, config, report, reward_charts, wording
from rlmlib.drawing import axes, panels
from rlmlib.engine import Attempt, row
from rlmlib.errors import RunError
from rlmlib.harness.trajectory import Call, Rollout, Tokens, Turn
from rlmlib.measures import summarise
from rlmlib.notebook import ROOT
from rlmlib.page import visible
from rlmlib.reward_explorer import GROUP
from rlmlib.runs import RunDir, append_jsonl, open_run, rewrite_jsonl, write_json
from rlmlib.tasks.base import Example
from rlmlib.training.groups import Batch, Group
from rlmlib.training.metrics import metrics

HOSTILE = "<script>alert(1)</script><img src=https://evil.example/x>"
NAMES = {"cost_accuracy", "training_dynamics", "step_scatter", "pass_at_k", "token_distribution", "by_family"}
PARAMS = config.validate({"name": "test", "seed": 7, "evaluation": {"bootstrap": 200, "rollouts_per_example": 2}})


def attempt(number: int, index: int, split: str, correct: bool, leaf_tokens: int) -> Attempt:
    family = ("aggregation", "coding", "research")[number % 3]
    example = Example(f"{split}-{number:05d}", family, "t", split, f"question {number} {HOSTILE}", "context", "gold")
    calls = [Call("leaf", "m", HOSTILE, HOSTILE, Tokens(leaf_tokens), attempts=1)] if leaf_tokens else []
    turns = [Turn("root", f"```repl\nprint(1)\n``` {HOSTILE}", ["print(1)"], [f"1 {HOSTILE}"], "policy", Tokens(100, 20), calls)]
    answer = f"answer {HOSTILE}" if correct or index else None
    rollout = Rollout(answer, "final" if answer else "missing", False, turns, seconds=0.5)
    return Attempt(example, index, rollout, correct)


def attempts(right_of_six: int, leaf_tokens: int) -> list[Attempt]:
    return [
        attempt(number, index, split, number % 6 < right_of_six, leaf_tokens * (1 + number) * index)
        for split in ("heldout", "seen")
        for number in range(12)
        for index in range(2)
    ]


def evaluated(run, label: str, right_of_six: int, leaf_tokens: int, seconds: float | None):
    rows = [row(a, run.store_context(a.example.context)) for a in attempts(right_of_six, leaf_tokens)]
    rewrite_jsonl(run / f"eval/{label}/rollouts.jsonl", rows)
    write_json(run / f"eval/{label}/summary.json", {"label": label, "step": None, "seconds": seconds, **summarise(rows, PARAMS)})


def trained(run, steps: int):
    for step in range(steps):
        group = Group(0, [attempt(0, 0, "train", True, 50 + step), attempt(0, 1, "train", False, 90)], [1.0, 0.0], "kept")
        learned = {"entropy": 0.5, "dropped_high": 0.01, "dropped_low": 0.0, "sample_seconds": 2.0, "train_seconds": 1.0}
        append_jsonl(run / "metrics.jsonl", [{"step": step, **metrics(Batch([group]), 0), **learned}])


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    run = open_run(tmp_path_factory.mktemp("full"), PARAMS)
    evaluated(run, "base", 2, 400, 10.0)
    trained(run, 12)
    evaluated(run, "trained", 4, 100, 20.0)
    report.render(run)
    return run


@pytest.fixture(scope="module")
def page(full) -> str:
    return (full / "report.html").read_text()


@pytest.fixture(scope="module")
def markup(page) -> str:
    """The page without its scripts."""
    return re.sub(r"<script[ >].*?</script>", "", page, flags=re.DOTALL)


@pytest.fixture(scope="module")
def based(tmp_path_factory):
    run = open_run(tmp_path_factory.mktemp("base"), PARAMS)
    evaluated(run, "base", 2, 400, 10.0)
    report.render(run)
    return run


@pytest.fixture
def empty(tmp_path):
    run = open_run(tmp_path, PARAMS)
    report.render(run)
    return run


# --- the page --------------------------------------------------------------------------------


def test_page_names_no_address_outside_model_text(page):
    assert set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+", page)) <= {"https://evil.example"}


def test_page_loads_nothing(markup):
    assert re.findall(r"<(?:link|iframe|img|script|object|embed)\b|@import|url\((?!#)", markup) == []


def test_plotly_library_is_embedded_once(page):
    assert page.count('<script id="plotly-js">') == 1 and len(re.findall(r"plotly\.js v\d", page)) == 1


def test_script_elements_are_only_our_own(page):
    assert len(re.findall(r"<script\b", re.sub(r'(<script id="plotly-js">).*?(</script>)', r"\1\2", page, flags=re.DOTALL))) == 3


def test_hostile_text_is_shown_escaped(markup):
    for place in ("question", "answer", "1 ", "``` "):  # question, answer, output, reply
        assert re.search(re.escape(place) + r"[ \d]*&lt;script&gt;alert\(1\)&lt;/script&gt;", markup), place


def test_every_chart_is_a_labelled_figure(markup):
    figures = re.findall(r'<figure class="chart" id="(\w+)">.*?role="img" aria-label="[^"]+".*?</figure>', markup, flags=re.DOTALL)
    assert set(figures) == NAMES


def test_every_chart_has_a_static_twin_for_readers_without_scripts(markup):
    assert len(re.findall(r"<noscript><svg\b.*?</svg></noscript>", markup, flags=re.DOTALL)) == len(NAMES)


def test_every_chart_has_a_folded_twin_with_its_numbers(markup):
    folded = re.findall(r'<details class="twin">.*?<svg\b.*?</svg>.*?<table>.*?<td>.*?</details>', markup, flags=re.DOTALL)
    assert len(folded) == len(NAMES)


def test_every_chart_has_a_plotly_figure(page):
    data = json.loads(re.search(r'id="chart-data">(.*?)</script>', page, flags=re.DOTALL)[1])
    assert {name for name, figure in data["figures"].items() if figure["data"]} == NAMES


def test_upload_button_is_removed(page):
    data = json.loads(re.search(r'id="chart-data">(.*?)</script>', page, flags=re.DOTALL)[1])
    assert "sendChartToCloud" in data["config"]["modeBarButtonsToRemove"] and data["config"]["displaylogo"] is False


def test_verdict_comes_before_every_table_and_chart(markup):
    assert 0 < markup.index("Training helped") < min(markup.index("<table"), markup.index("<figure"))


def test_splits_have_tables_of_their_own(markup):
    assert len(re.findall(r'<table class="results">', markup)) == 2


def test_three_questions_are_shown_before_and_after(markup):
    assert len(re.findall(r'<details class="rollout base">', markup)) == len(re.findall(r'<details class="rollout trained">', markup)) == 3


def test_figures_are_written_in_three_forms(full):
    assert {p.name for p in (full / "figures").iterdir()} == {f"{name}.{kind}" for name in NAMES for kind in ("json", "svg", "png", "csv")}


def test_report_is_the_same_when_rendered_again(full, page):
    report.render(full)
    assert (full / "report.html").read_text() == page


# --- summary.json ----------------------------------------------------------------------------


def test_summary_has_exactly_its_keys(full):
    summary = json.loads((full / "summary.json").read_text())
    assert set(summary) == {"base", "trained", "n_rollouts", "seed", "seconds"}
    assert set(summary["base"]) == set(summary["trained"]) == {"pass_at_1", "leaf_tokens_mean", "missing_final"}


def test_summary_values_are_triples_of_the_heldout_split(full):
    summary = json.loads((full / "summary.json").read_text())
    assert summary["base"]["pass_at_1"][0] == pytest.approx(2 / 6) and summary["trained"]["pass_at_1"][0] == pytest.approx(4 / 6)
    assert all(low <= value <= high for label in ("base", "trained") for value, low, high in summary[label].values())


def test_summary_counts_rollouts_seed_and_seconds(full):
    summary = json.loads((full / "summary.json").read_text())
    assert (summary["n_rollouts"], summary["seed"], summary["seconds"]) == (24, 7, 12 * 3.0 + 30.0)


# --- parts that do not exist -----------------------------------------------------------------


def test_base_alone_leaves_the_question_open(based):
    assert "whether training helped is open" in (based / "report.html").read_text()


def test_base_alone_has_a_null_for_trained(based):
    summary = json.loads((based / "summary.json").read_text())
    assert summary["trained"] is None and summary["base"]["pass_at_1"][0] == pytest.approx(2 / 6) and summary["seconds"] == 10.0


def test_no_training_is_said_in_words(based):
    assert "No training step has been done yet" in (based / "report.html").read_text()


def test_empty_run_says_that_nothing_is_there(empty):
    assert "Nothing has been evaluated yet" in (empty / "report.html").read_text()


def test_empty_run_has_nulls(empty):
    summary = json.loads((empty / "summary.json").read_text())
    assert summary == {"base": None, "trained": None, "n_rollouts": None, "seed": 7, "seconds": None}


def test_unknown_seconds_of_an_evaluation_count_as_nothing(tmp_path):
    run = open_run(tmp_path, PARAMS)
    evaluated(run, "base", 2, 400, None)
    trained(run, 2)
    assert report.Facts(run).summary()["seconds"] == 6.0


def test_training_without_evaluation_draws_its_curves(tmp_path):
    run = open_run(tmp_path, PARAMS)
    trained(run, 1)
    assert set(report.all_charts(report.Facts(run))) == {"training_dynamics", "step_scatter"}


def test_summary_without_its_rollouts_counts_as_not_evaluated(tmp_path):
    run = open_run(tmp_path, PARAMS)
    evaluated(run, "base", 2, 400, 1.0)
    (run / "eval/base/rollouts.jsonl").unlink()
    assert report.Facts(run).labels == []


def test_folder_that_holds_no_run_is_refused(tmp_path):
    with pytest.raises(RunError, match="not a run directory"):
        report.render(RunDir(tmp_path))


# --- what the verdict says -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("right", "tokens", "words"),
    [
        (4, 100, "Training helped: more right answers, for fewer leaf tokens."),
        (0, 400, "Training hurt: fewer right answers, for about the same leaf tokens."),
        (2, 400, "Training did not measurably help"),
        (2, 100, "cheaper; a change in accuracy could not be measured"),
    ],
)
def test_headline_follows_the_numbers(tmp_path, right, tokens, words):
    run = open_run(tmp_path, PARAMS)
    evaluated(run, "base", 2, 400, 1.0)
    evaluated(run, "trained", right, tokens, 1.0)
    assert words in report.verdict(report.Facts(run))["headline"]


def test_intervals_that_touch_are_not_disjoint():
    assert wording.disjoint([1, 0, 2], [4, 3, 5]) and not wording.disjoint([1, 0, 3], [4, 3, 5])


def test_picked_pairs_prefer_a_gain(full):
    gains = {before["family"]: after["correct"] - before["correct"] for before, after in report.pick_pairs(report.Facts(full))}
    assert gains == {"aggregation": 1, "coding": 0, "research": 1}  # no coding question was gained


def test_picked_pairs_cover_the_families_that_exist(full):
    assert {before["family"] for before, _ in report.pick_pairs(report.Facts(full))} == {"aggregation", "coding", "research"}


def test_control_and_direction_characters_are_made_visible():
    assert visible("a\x00b\u202ec\ud800") == "a\\u0000b\\u202ec\\ud800"


def test_long_text_tells_how_much_is_hidden():
    assert "[... 6,000 characters are not shown ...]" in visible("x" * 10_000)


def test_importing_the_modules_loads_no_heavy_package():
    code = (
        "import sys, rlmlib.charts, rlmlib.report, rlmlib.dashboard, rlmlib.trajectory_browser;"
        "print(sorted({'plotly', 'matplotlib', 'pandas', 'torch', 'ipywidgets', 'jinja2'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout == "[]\n"


# --- charts ----------------------------------------------------------------------------------


def frame(rows):
    import pandas as pd

    return pd.DataFrame(rows)


@pytest.mark.parametrize(("style", "color"), [(n, c) for n, s in panels.STYLES.items() for c in (s.color, s.light)])
def test_colours_have_contrast_on_white(style, color):
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    luminance = sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    assert 1.05 / (luminance + 0.05) >= 3.0, style


def test_styles_differ_without_colour():
    looks = {(s.dash, s.marker) for s in panels.STYLES.values()}
    assert len(looks) == len(panels.STYLES)


def test_one_step_is_drawn_as_points(full):
    chart = charts.training_dynamics(frame(full.metrics[:1]))
    assert {trace.mode for trace in chart.figure.data} == {"markers"} and chart.title.startswith("Right answers in the first")


def test_title_states_the_change():
    assert charts.change("Accuracy", 0.21, 0.55) == "Accuracy rose from 21 % to 55 %"


def test_title_does_not_claim_a_change_that_rounds_away():
    assert charts.change("Accuracy", 0.211, 0.213) == "Accuracy stayed at 21 %"


def test_rollouts_without_leaf_calls_are_the_height_at_the_left_edge():
    chart = charts.token_distribution(frame([{"label": "base", "leaf_tokens": t} for t in (0, 0, 0, 100)]))
    assert chart.figure.data[0].y[0] == 0.75


def test_only_zero_tokens_can_be_drawn():
    chart = charts.token_distribution(frame([{"label": "base", "leaf_tokens": 0}] * 3))
    assert chart.svg.startswith("<svg") and set(chart.figure.data[0].y) == {1.0}


@pytest.mark.parametrize(("low", "high", "ticks"), [(0.9, 120, [1, 2, 5, 10, 20, 50, 100]), (350, 1100, [500, 700, 1000])])
def test_log_axis_has_ticks_enough(low, high, ticks):
    assert axes.log_ticks(low, high) == ticks


def test_log_axis_over_many_decades_has_powers_of_ten_only():
    assert axes.log_ticks(1, 1e5) == [1, 10, 100, 1e3, 1e4, 1e5]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (0.5, "0.5"),
        (500, "500"),
        (999.6, "1k"),
        (1000, "1k"),
        (8192, "8.19k"),
        (500_000, "500k"),
        (999_999, "1M"),
        (2e6, "2M"),
        (3e9, "3G"),
    ],
)
def test_ticks_are_written_short(value, name):
    assert axes.short(value) == name


@pytest.mark.parametrize(("high", "step"), [(1.2, 1), (6, 1), (7, 2), (29, 5), (31, 10), (120, 20)])
def test_counts_have_whole_ticks(high, step):
    assert axes.whole_step(high) == step


def test_panels_that_are_compared_share_a_y_axis():
    low, high = (panels.Panel("", "", "", [panels.Mark("line", [1, 2], [top, top])], percent=True, reach=1.0) for top in (0.2, 0.9))
    assert axes.y_range(low) == axes.y_range(high) == (0, 1.03)


def test_a_long_title_goes_on_in_the_next_line(full):
    chart = dataclasses.replace(charts.step_scatter(frame(full.metrics)), title="so many words " * 12)
    lines = chart.figure.layout.title.text.split("<br>")
    assert len(lines) == 2 and max(map(len, lines)) <= 85
    assert chart.figure.layout.height == charts.step_scatter(frame(full.metrics)).figure.layout.height + 24


def test_cost_of_zero_falls_back_to_a_linear_axis():
    point = {"pass_at_1": 0.5, "pass_low": 0.4, "pass_high": 0.6, "tokens": 1.0, "tokens_low": 0.0, "tokens_high": 2.0}
    chart = charts.cost_accuracy(frame([{"label": "base", "split": "heldout", **point}]))
    assert chart.figure.layout.xaxis.type != "log" and "<svg" in chart.svg


def test_svg_ids_carry_the_charts_name():
    svg = reward_charts.reward_shape(GROUP).svg
    assert set(re.findall(r'\bid="([^-"]*)', svg)) == {"reward_shape"} and "url(#reward_shape-" in svg


def test_svg_text_stays_text():
    assert "Rewards of the group" in re.sub(r"<[^>]+>|<!--.*?-->", "", reward_charts.reward_shape(GROUP).svg, flags=re.DOTALL)


def test_leaf_accuracy_draws_a_line_a_family():
    rows = [{"excerpt_chars": c, "family": f, "accuracy": 0.5, "low": 0.4, "high": 0.6, "tokens": c} for c in (100, 1000) for f in "ab"]
    chart = charts.leaf_accuracy(frame(rows))
    assert [t.name for t in chart.figure.data if t.name] == ["a", "b"] and "</svg>" in chart.svg


def test_notebook_output_has_both_forms():
    bundle = reward_charts.reward_shape(GROUP)._repr_mimebundle_()
    assert {"application/vnd.plotly.v1+json", "image/svg+xml"} <= set(bundle) and json.dumps(bundle)
