"""The trajectory viewer: what the page holds, and how it behaves in a real Chromium, driven over its debugging port."""

import contextlib
import html
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading

import pytest
from browser import WAIT_S, Browser

from rlmlib.errors import RunError
from rlmlib.harness.trajectory import Call, Rollout, Tokens, Turn
from rlmlib.viewer import Inline, outcome, save, show, summary, trajectory_html

HOSTILE = [
    "<script>window.ran = 1</script>",
    "</script><script>window.ran = 1</script>",
    "<img src=x onerror='window.ran = 1'>",
    "<svg onload=window.ran=1>",
    "<!--<script>",
    "]]>",
    "</pre></details></main></body></html>",
    "<iframe srcdoc='<script>parent.ran = 1</script>'></iframe>",
    "javascript:window.ran=1",
    "{{ 7 * 7 }}{% raw %}",
    "a\u2028b\u2029c",
    "lone \ud800 and \udfff",
    "NUL \0 end",
    "right \u202e to left",
    "\"'`&lt;&amp;${7*7}\\",
]
ATTACK = "\n".join(HOSTILE)


def tree(question: str = "Who wrote it?", text: str = "plain", stop: str = "final") -> Rollout:
    """A root of two turns: the first calls a leaf and a child, whose one turn calls a leaf of its own."""
    deep = Call("leaf", "leaf-model", f"deep prompt {text}", f"deep answer {text}", Tokens(7, 1), 0.25, attempts=1)
    below = Turn("child", f"child reply {text}", ["y = 2"], [f"child output {text}"], "root-model", Tokens(30, 4), [deep], 0.5)
    child = Rollout(f"child said {text}", "final", turns=[below], depth=1, question="sub-question")
    calls = [
        Call("leaf", "leaf-model", f"prompt {text}", f"told {text}", Tokens(1200, 3, 1, 0.002), 0.5, attempts=2),
        Call("child", "root-model", f"to the child {text}", f"child said {text}", seconds=1.5, attempts=1, child=child),
    ]
    code = f"print('''{text}''')\nx = llm_query(context)  # ask"
    first = Turn(
        "root", f"I look.\n```repl\n{code}\n```\n{text}", [code], [f"out {text}"], "root-model", Tokens(100, 20, 5, 0.01), calls, 2.5
    )
    last = Turn("root", f"FINAL({text})", [], [], "root-model", Tokens(150, 6, 0, 0.01), [], 0.5)
    return Rollout(text if stop == "final" else None, stop, False, [first, last], 3.25, None, 0, f"{question} {text}")


def page_data(page: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def every_text(node: dict) -> list[str]:
    own = ["".join(text for _, text in field["parts"]) for field in node["fields"] if "parts" in field]
    return own + [text for child in node["nodes"] for text in every_text(child)]


# --- the page as text --------------------------------------------------------------------------


def test_every_text_of_the_tree_is_in_the_page():
    texts = "\n".join(every_text(page_data(trajectory_html(tree(text="needle")))["roots"][0]))
    wanted = [
        "Who wrote it? needle",
        "I look.",
        "out needle",
        "told needle",
        "to the child needle",
        "child reply needle",
        "deep answer needle",
    ]
    assert [text for text in wanted if text not in texts] == []


def test_no_character_that_a_reader_cannot_see_is_in_the_page():
    """Surrogates, separators, direction marks and control characters become escapes."""
    page = trajectory_html(tree(text=ATTACK), contexts=[ATTACK], title=ATTACK, outcomes=[ATTACK])
    page.encode("utf-8")
    assert re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\ud800-\udfff]", page) == []


def test_no_model_text_is_markup():
    """The hostile page has the tags of the harmless one, and not one more."""

    def tags(text):
        page = trajectory_html(tree(text=text), contexts=[text], title=text, outcomes=[text])
        return [found.split()[0] for found in re.findall(r"<[/!]?[a-zA-Z][^>]*", page)]

    assert tags(ATTACK) == tags("plain")


def test_a_context_that_many_rollouts_read_is_stored_once():
    page = trajectory_html([tree() for _ in range(5)], contexts=["the long context " * 50] * 5)
    assert page.count("the long context " * 50) == 1


def test_a_very_long_text_says_what_is_left_out():
    texts = every_text(page_data(trajectory_html(tree(text="z" * 100_000)))["roots"][0])
    assert max(map(len, texts)) < 62_000 and any("characters left out" in text for text in texts)


def test_a_block_that_is_not_in_the_reply_word_for_word_is_shown_beside_it():
    rollout = tree()
    rollout.turns[0].reply = "- ```repl\n  x = 1\n  y = 2\n  ```"
    rollout.turns[0].blocks = ["x = 1\ny = 2"]
    assert "x = 1\ny = 2" in every_text(page_data(trajectory_html(rollout))["roots"][0])


@pytest.mark.parametrize(
    ("dollars", "words"), [(None, "price unknown"), (0.00004, "under $0.0001"), (0.0123, "$0.0123"), (1234.5, "$1,234.50")]
)
def test_prices_in_words(dollars, words):
    turn = Turn("root", "FINAL(1)", tokens=Tokens(1, 1, 0, dollars))
    assert summary(Rollout("1", "final", turns=[turn])).endswith(f"; {words})")


def test_no_price_is_shown_where_nothing_was_paid():
    assert "$" not in summary(Rollout("1", "final", turns=[Turn("root", "FINAL(1)", tokens=Tokens(1, 1))]))


def test_outcomes():
    rollouts = [Rollout("1", "final"), Rollout("1", "final", forced=True), Rollout(stop="budget:tokens"), Rollout(error="down")]
    assert [outcome(r) for r in rollouts] == ["final", "forced", "budget:tokens", "failed"]


def test_a_missing_context_is_named():
    with pytest.raises(ValueError, match="1 contexts for 2 rollouts; give one for each"):
        trajectory_html([tree(), tree()], contexts=["one"])


def test_save_writes_the_page_and_leaves_no_temporary_file(tmp_path):
    path = save(tree(), tmp_path / "new" / "page.html", title="Saved")
    assert "<title>Saved</title>" in path.read_text() and os.listdir(path.parent) == ["page.html"]


def test_save_into_a_file_instead_of_a_folder_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="name another folder"):
        save(tree(), tmp_path / "file" / "page.html")


def test_the_frame_gives_back_the_page_and_is_shut_off_from_the_notebook():
    page = trajectory_html(tree(text=ATTACK))
    frame = Inline(page, "text", 500)._repr_html_()
    source = re.search(r' srcdoc="([^"]*)"></iframe>$', frame)[1]
    assert html.unescape(source) == page and ' sandbox="allow-scripts" ' in frame and "height:500px" in frame


def test_show_prints_the_summary_outside_a_notebook():
    program = "from rlmlib.harness.trajectory import Rollout; from rlmlib.viewer import show; show([Rollout('a\\nb', 'final'), Rollout()])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=WAIT_S)
    assert done.stdout.splitlines() == [
        "1. final: a b (0 turns; 0 leaf calls; 0 tokens; 0.0 s)",
        "2. missing: no answer (0 turns; 0 leaf calls; 0 tokens; 0.0 s)",
    ]


def test_show_gives_a_notebook_the_frame():
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    InteractiveShell.instance()
    try:
        with capture_output() as captured:
            show(tree(), height=321)
    finally:
        InteractiveShell.clear_instance()
    assert "height:321px" in captured.outputs[0].data["text/html"] and captured.outputs[0].data["text/plain"].startswith("1. final: plain")


def test_a_child_that_was_refused_is_still_a_child():
    turn = Turn("root", "r", ["rlm_query('a')"], [""], calls=[Call("child", "m", "a", "error: no subcalls left", error="budget")])
    (node,) = page_data(trajectory_html(Rollout(turns=[turn])))["roots"][0]["nodes"][0]["nodes"]
    assert (node["kind"], node["label"], node["badge"], node["tone"]) == ("child", "Child", "budget", "bad")


def test_words_of_the_page_are_not_texts_of_the_model():
    """What was not said is told beside the texts, so that no search finds it and no model can imitate it."""
    rollout = tree()
    rollout.turns[0].outputs = [""]
    turns = page_data(trajectory_html(rollout))["roots"][0]["nodes"]
    assert [turn["fields"][-1] for turn in turns] == [
        {"name": "Output", "parts": [], "note": "printed nothing", "column": 2},
        {"name": "Output", "parts": [], "note": "no code ran", "column": 2},
    ]


def test_a_block_after_the_answer_is_told_from_one_that_printed_nothing():
    turn = Turn("root", "r", ["FINAL(1)", "print(2)"], [""])
    fields = page_data(trajectory_html(Rollout("1", "final", turns=[turn])))["roots"][0]["nodes"][0]["fields"]
    assert [field["note"] for field in fields if "note" in field] == ["printed nothing", "was not run to its end"]


# --- in a browser ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("no chromium on the path; install it (Debian: apt-get install chromium) to test the viewer in a browser")
    browser = Browser(program, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def listener():
    """An address that a page could call, and how often it was called."""
    calls = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        done = threading.Event()

        def accept():
            while not done.is_set():
                with contextlib.suppress(TimeoutError):
                    connection, _ = server.accept()
                    calls.append(1)
                    connection.close()

        thread = threading.Thread(target=accept)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/", calls
        done.set()
        thread.join(WAIT_S)


@pytest.fixture
def opened(browser, tmp_path):
    def show_page(rollouts, width: int = 1400, **options) -> Browser:
        browser.open(save(rollouts, tmp_path / "page.html", **options), width)
        return browser

    return show_page


def test_search_opens_the_leaf_of_a_folded_child(opened):
    browser = opened([tree(), tree(text="needle"), tree()])
    browser.search("deep answer needle")
    assert browser.run("found.textContent") == "1 of 1 hit"
    mark = "document.querySelector('mark.now')"
    assert browser.run(f"{mark}.textContent") == "deep answer needle"
    assert browser.run(f"{mark}.checkVisibility()")
    path = "for (let e = MARK; e = e.closest('details'); e = e.parentNode) path.push(e.className)".replace("MARK", mark)
    assert browser.run(f"(() => {{ const path = []; {path}; return path }})()") == ["leaf", "turn", "child", "turn", "root"]


def test_next_and_previous_go_round_in_reading_order(opened):
    browser = opened([tree(text="one"), tree(text="two")])
    browser.search("Who wrote it?")
    seen = [browser.run("document.querySelector('mark.now').parentNode.textContent")]
    for button in ("next", "next", "previous"):
        browser.run(f"document.getElementById('{button}').click()")
        seen.append(browser.run("found.textContent[0] + document.querySelector('mark.now').parentNode.textContent"))
    assert seen == ["Who wrote it? one", "2Who wrote it? two", "1Who wrote it? one", "2Who wrote it? two"]


def test_a_hit_that_runs_over_coloured_tokens_is_marked_whole(opened):
    browser = opened(tree())
    browser.search("x = llm_query(context)  # ask")
    assert browser.run("[...document.querySelectorAll('mark.now')].map(m => m.textContent).join('')") == "x = llm_query(context)  # ask"
    assert browser.run("document.querySelector('mark.now').closest('pre').textContent.startsWith('I look.')")


def test_search_takes_the_query_as_text_of_any_case(opened):
    browser = opened(tree(text="a.(b)*[c] ÉTÉ"))
    browser.search("A.(B)*[C] été")
    assert browser.run("document.querySelector('mark.now').textContent") == "a.(b)*[c] ÉTÉ"
    browser.search("a.c")
    assert browser.run("found.textContent") == "no hits"


def test_a_new_search_leaves_no_old_marks(opened):
    browser = opened(tree())
    browser.search("plain")
    browser.search("sub-question")
    assert browser.run("[...new Set([...document.querySelectorAll('mark')].map(m => m.textContent))]") == ["sub-question"]


def test_the_filter_hides_other_outcomes_from_view_and_search(opened):
    browser = opened([tree(), tree(stop="timeout"), tree()])
    browser.run("outcome.value = 'timeout', outcome.dispatchEvent(new Event('change')), 0")
    assert browser.run("[...document.querySelectorAll('details.root')].map(d => d.checkVisibility())") == [False, True, False]
    browser.search("Who wrote it")
    assert browser.run("found.textContent") == "1 of 1 hit"


def test_given_outcomes_are_what_is_filtered_by(opened):
    browser = opened([tree(), tree(), tree()], outcomes=["right", "wrong", "right"])
    assert browser.run("[...outcome.options].map(o => o.text)") == ["all (3)", "right (2)", "wrong (1)"]


def test_keys_search_step_and_fold(opened):
    browser = opened([tree(text="one"), tree(text="two")])
    browser.press("/")
    assert browser.run("document.activeElement.id") == "query"
    browser.search("Who wrote it?")
    browser.press("Enter")
    assert browser.run("found.textContent") == "2 of 2 hits"
    browser.press("Enter", modifiers=8)  # Shift
    assert browser.run("found.textContent") == "1 of 2 hits"
    browser.run("fold.click(), document.querySelector('summary').focus()")
    browser.press("ArrowDown")
    browser.press("ArrowRight")
    assert browser.run("[...document.querySelectorAll('details.root')].map(d => d.open)") == [False, True]
    browser.press("ArrowDown")
    assert browser.run("document.activeElement.parentNode.className") == "turn"
    browser.press("ArrowLeft")
    browser.press("ArrowLeft")
    assert browser.run("document.activeElement.parentNode.className") == "root"


def test_python_is_coloured_and_prose_is_not(opened):
    browser = opened(tree(text="for # not code"))
    kinds = "[...document.querySelectorAll('details.turn pre span:not(.code)')].map(s => [s.className, s.textContent])"
    assert browser.run(kinds) == [["string", "'''for # not code'''"], ["call", "llm_query"], ["call", "context"], ["comment", "# ask"]]


def test_hostile_text_is_shown_and_does_not_run(opened):
    browser = opened([tree(text=ATTACK)], contexts=[ATTACK], title=ATTACK, outcomes=[ATTACK])
    browser.open_all()
    assert browser.run("window.ran") is None
    assert browser.run("document.querySelectorAll('img, svg, iframe, [onerror], [onload]').length") == 0
    shown = browser.run("[...document.querySelectorAll('pre')].map(p => p.textContent).join()")
    assert [text for text in HOSTILE if re.sub("[\0\u2028-\u202e\ud800-\udfff]", lambda c: f"\\u{ord(c[0]):04x}", text) not in shown] == []


def test_nothing_is_logged_and_nothing_but_the_file_is_asked_for(opened):
    browser = opened([tree(text=ATTACK)], contexts=[ATTACK])
    browser.open_all()
    browser.search("plain")
    browser.run("document.getElementById('next').click()")
    assert browser.complaints == []
    assert [url.rsplit("/", 1)[1] for url in browser.requests] == ["page.html"]


@pytest.mark.parametrize(
    "way", ["fetch(url).catch(String)", "new Promise(end => { const i = new Image(); i.onerror = end; i.onload = end; i.src = url })"]
)
def test_the_policy_lets_no_request_leave(opened, listener, way):
    url, calls = listener
    opened(tree()).run(f"(url => {way})({json.dumps(url)}).then(() => 0)")
    assert calls == []


def test_the_policy_runs_no_script_that_is_not_the_pages(opened):
    browser = opened(tree())
    browser.run("document.body.appendChild(Object.assign(document.createElement('script'), { textContent: 'window.ran = 1' })), 0")
    browser.run("document.body.insertAdjacentHTML('beforeend', '<b onclick=\"window.ran = 2\">'), document.body.lastChild.click(), 0")
    assert browser.run("window.ran") is None


def test_the_page_works_in_the_sandboxed_frame_of_a_notebook(browser, tmp_path):
    frame = Inline(trajectory_html(tree()), "text", 500)._repr_html_()
    path = tmp_path / "notebook.html"
    path.write_text(f"<!DOCTYPE html>{frame}")
    browser.open(path)
    browser.attach("iframe")
    browser.until("document.querySelectorAll('details').length > 3")
    assert browser.complaints == []


def test_many_long_rollouts_draw_only_what_is_open(opened):
    rollouts = [tree(text=f"number {n}") for n in range(64)]
    for rollout in rollouts:
        rollout.turns = rollout.turns[:1] * 14 + rollout.turns[1:]
    browser = opened(rollouts)
    assert browser.run("document.querySelectorAll('details').length") == 64
    assert browser.run("document.querySelectorAll('*').length") < 64 * 12
    browser.search("deep answer number 63")
    assert browser.run("found.textContent") == "1 of 14 hits"
    assert browser.run("document.querySelectorAll('details.root[open]').length") == 1


@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_sticks_out_sideways(opened, width):
    browser = opened([tree(text="unbroken" * 60), tree(text=ATTACK)], width=width, title="long" * 80, outcomes=["right", "x" * 200])
    browser.open_all()
    assert browser.run("document.documentElement.scrollWidth") <= width
