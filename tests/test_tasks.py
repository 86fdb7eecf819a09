"""Tasks: reproducible, right by a second reading of the context, held-out names and wordings never in training; and the leaf."""

import ast
import asyncio
import contextlib
import hashlib
import math
import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from rlmlib.config import Tasks
from rlmlib.errors import RlmError
from rlmlib.models.lexical_leaf import NOT_FOUND, LexicalLeaf
from rlmlib.tasks import names
from rlmlib.tasks.mixture import example, examples

ROOT = Path(__file__).parents[1]
SHORT = Tasks(min_chars=5_000, max_chars=30_000)
COUNT = 150  # examples of each split that the properties are checked on
SPLITS = ("train", "seen", "heldout")

# a second copy, so that a slip in the package's tables is seen
NOUNS = {
    "sport": "goalkeeper striker marathon referee stadium",
    "food": "cook bakery soup cheese recipe",
    "weather": "storm fog sunshine drizzle frost",
    "music": "violin chorus melody drummer orchestra",
    "travel": "train passport luggage hostel ferry",
    "money": "loan tax invoice bank salary",
}
TOPIC_OF = {noun: topic for topic, nouns in NOUNS.items() for noun in nouns.split()}


@pytest.fixture(scope="module")
def made():
    return {split: examples(SHORT, split, COUNT, seed=7) for split in SPLITS}


@pytest.fixture(scope="module")
def everything(made):
    return [e for split in SPLITS for e in made[split]]


def of(everything, family, *tasks):
    chosen = [e for e in everything if e.family == family and (not tasks or e.task in tasks)]
    assert chosen, "no such examples: the test would check nothing"
    return chosen


# --- reproducible


def test_same_arguments_give_the_same_example():
    assert all(example(SHORT, s, i, 7) == example(SHORT, s, i, 7) for s in SPLITS for i in range(5))


def test_example_does_not_depend_on_how_many_are_drawn(made):
    assert made["train"][:20] == examples(SHORT, "train", 20, seed=7)


def test_another_seed_gives_other_examples():
    assert all(example(SHORT, "train", i, 7).context != example(SHORT, "train", i, 8).context for i in range(10))


DIGEST = """
import hashlib
from rlmlib.config import Tasks
from rlmlib.errors import RlmError
from rlmlib.tasks.mixture import examples
made = examples(Tasks(min_chars=5000, max_chars=30000), "train", 12, 7)
print(hashlib.sha256(repr(made).encode()).hexdigest())
"""


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_example_is_the_same_in_every_process(made, hash_seed):
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    result = subprocess.run([sys.executable, "-c", DIGEST], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert result.stdout.strip() == hashlib.sha256(repr(made["train"][:12]).encode()).hexdigest()


def test_ids_are_unique_and_name_the_split(everything):
    assert len({e.id for e in everything}) == len(everything) and all(e.id.startswith(e.split + "-") for e in everything)


def test_shares_are_those_of_the_mixture():
    """1,000 draws: each share within 5 standard deviations (.08) of what was asked for."""
    config = Tasks(min_chars=5000, max_chars=6000, aggregation=0.6, research=0.3, coding=0.1)
    found = Counter(example(config, "train", i, 7).family for i in range(1000))
    assert all(abs(found[f] / 1000 - share) < 0.08 for f, share in (("aggregation", 0.6), ("research", 0.3), ("coding", 0.1)))


@pytest.mark.parametrize("family", ["aggregation", "research", "coding"])
def test_one_family_alone_can_be_asked_for(family):
    shares = {name: float(name == family) for name in ("aggregation", "research", "coding")}
    assert {e.family for e in examples(Tasks(min_chars=5000, max_chars=6000, **shares), "train", 20, 7)} == {family}


def test_every_task_occurs_in_every_split(made):
    tasks = {split: {e.task for e in made[split]} for split in SPLITS}
    assert tasks["train"] == tasks["seen"] == tasks["heldout"] and len(tasks["train"]) == 14


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_share_of_hidden_labels_is_kept(share):
    config = Tasks(min_chars=5000, max_chars=6000, aggregation=1.0, research=0.0, coding=0.0, hidden_labels=share)
    assert {e.task.startswith("hidden") for e in examples(config, "train", 20, 7)} == {bool(share)}


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_share_of_two_hop_questions_is_kept(share):
    config = Tasks(min_chars=5000, max_chars=6000, aggregation=0.0, research=1.0, coding=0.0, two_hop=share)
    found = {e.task in ("born_country", "teacher_occupation") for e in examples(config, "train", 20, 7)}
    assert found == {bool(share)}


# --- lengths


@pytest.mark.parametrize("family", ["aggregation", "research"])
def test_length_is_in_range_up_to_one_line(everything, family):
    longest_line = max(len(line) for e in of(everything, family) for line in e.context.split("\n"))
    assert all(5_000 <= len(e.context) <= 30_000 + longest_line for e in of(everything, family))


def test_length_of_code_is_in_range_up_to_one_file(everything):
    assert all(4_000 <= len(e.context) <= 30_500 for e in of(everything, "coding"))


def test_lengths_are_spread_log_uniformly():
    """300 records contexts from 1k to 100k: each third of the log range holds 20 to 47 %."""
    config = Tasks(min_chars=1000, max_chars=100_000, aggregation=1.0, research=0.0, coding=0.0)
    lengths = [len(e.context) for e in examples(config, "train", 300, 7)]
    thirds = Counter(min(2, int(math.log(n / 1000, 100) * 3)) for n in lengths)
    assert all(0.2 < thirds[i] / 300 < 0.47 for i in range(3))


# --- right answers, by reading the context a second time


def records(context):
    return [line.split(" | ") for line in context.split("\n")]


def topic_of(fields):
    return fields[3] if len(fields) == 4 else next(TOPIC_OF[w] for w in fields[2].split() if w in TOPIC_OF)


def test_answer_of_an_aggregation_question_is_right(everything):
    for e in of(everything, "aggregation"):
        rows = records(e.context)
        asked = [user for user in {r[1] for r in rows} if user in e.question]
        topics = Counter(topic_of(r) for r in rows if not asked or r[1] == asked[0])
        label = next((t for t in NOUNS if re.search(rf"\b{t}\b", e.question)), None)
        assert len(asked) <= 1, e.question
        assert e.answer == (str(topics[label]) if label else topics.most_common(1)[0][0]), e.id


def test_answer_of_an_aggregation_question_is_never_tied(everything):
    for e in of(everything, "aggregation", "shown_most", "hidden_topic"):
        rows = records(e.context)
        asked = [user for user in {r[1] for r in rows} if user in e.question]
        counts = sorted(Counter(topic_of(r) for r in rows if not asked or r[1] == asked[0]).values())
        assert len(counts) > 1 and counts[-1] > counts[-2], e.id


def test_a_count_is_never_zero(everything):
    assert all(int(e.answer) > 0 for e in of(everything, "aggregation", "shown_count", "shown_user", "hidden_user"))


def test_hidden_records_do_not_show_their_label(everything):
    for e in of(everything, "aggregation", "hidden_user", "hidden_topic"):
        assert all(len(r) == 3 for r in records(e.context))
        assert not re.search(rf"\b({'|'.join(NOUNS)})\b", e.context), e.id


def test_shown_label_agrees_with_its_text(everything):
    for e in of(everything, "aggregation", "shown_count", "shown_most", "shown_user"):
        assert all(r[3] == topic_of(r[:3]) for r in records(e.context)), e.id


FACTS = {
    "birthplace": (
        r"{n} was born in (\w+)",
        r"{n} came into the world in (\w+)",
        r"birthplace of {n} is (\w+)",
        r"{n} was born stood in (\w+)",
    ),
    "occupation": (
        r"{n} worked as a (\w+)",
        r"trade {n} was a (\w+)",
        r"{n} earned a living as a (\w+)",
        r"profession of {n} was that of a (\w+)",
    ),
    "year": (r"\b(1[789]\d\d)\b",),
    "teacher": (r"{n} studied under (\w+ \w+)", r"teacher of {n} was (\w+ \w+)", r"{n} was taught by (\w+ \w+)"),
    "country": (r"{n} lies in the country of (\w+)", r"country around {n} is (\w+)", r"{n} is a town in the country (\w+)"),
}


def fact(context, subject, relation):
    """All values that the subject's own page gives for the relation; there must be one."""
    page = next(line for line in context.split("\n") if line.startswith(subject + ". "))
    found = {value for pattern in FACTS[relation] for value in re.findall(pattern.format(n=re.escape(subject)), page)}
    assert len(found) == 1, (subject, relation, found)
    return found.pop()


def subject_of(e):
    titles = {line.split(". ")[0] for line in e.context.split("\n")}
    asked = [t for t in titles if " " in t and re.search(rf"\b{t}\b", e.question)]
    assert len(asked) == 1, (e.question, asked)
    return asked[0]


def test_answer_of_a_research_question_is_right(everything):
    for e in of(everything, "research"):
        subject = subject_of(e)
        if e.task == "born_country":
            answer = fact(e.context, fact(e.context, subject, "birthplace"), "country")
        elif e.task == "teacher_occupation":
            answer = fact(e.context, fact(e.context, subject, "teacher"), "occupation")
        else:
            answer = fact(e.context, subject, e.task)
        assert e.answer == answer, e.id


def test_every_page_has_a_title_of_its_own(everything):
    for e in of(everything, "research"):
        titles = [line.split(". ")[0] for line in e.context.split("\n")]
        assert len(set(titles)) == len(titles), e.id


def files(context):
    parts = re.split(r"^### file: (\S+)\n", context, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def name_in(question):
    return re.search(r"`([^`]+)`", question)[1]


def nodes(e, kinds):
    """(file, node) of every definition of the name asked about."""
    found = [(path, node) for path, source in files(e.context).items() for node in ast.walk(ast.parse(source))]
    return [(path, node) for path, node in found if isinstance(node, kinds) and node.name == name_in(e.question)]


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def test_name_of_a_coding_question_is_defined_once(everything):
    for e in of(everything, "coding", "params", "base", "file"):
        assert len(nodes(e, (*FUNCTIONS, ast.ClassDef))) == 1, e.id


def test_count_of_parameters_is_right(everything):
    for e in of(everything, "coding", "params"):
        [(_, node)] = nodes(e, FUNCTIONS)
        assert e.answer == str(sum(isinstance(child, ast.arg) for child in ast.iter_child_nodes(node.args))), e.id


def test_first_base_is_right(everything):
    for e in of(everything, "coding", "base"):
        [(path, node)] = nodes(e, ast.ClassDef)
        line = files(e.context)[path].split("\n")[node.lineno - 1]
        assert re.search(rf"class {node.name}\(\s*(\w+)\s*[,)]", line)[1] == e.answer, e.id


def test_defining_file_is_right(everything):
    for e in of(everything, "coding", "file"):
        [(path, _)] = nodes(e, ast.ClassDef)
        assert path == e.answer, e.id


def test_count_of_functions_in_the_module_body_is_right(everything):
    for e in of(everything, "coding", "toplevel"):
        path = re.search(r"\S+\.py", e.question)[0]
        assert e.answer == str(sum(isinstance(node, FUNCTIONS) for node in ast.parse(files(e.context)[path]).body)), e.id


def test_files_of_a_context_are_whole(everything):
    for e in of(everything, "coding"):
        assert files(e.context) and all(ast.parse(source).body for source in files(e.context).values()), e.id


# --- held out means never seen


def named(e):
    """Names of people and towns in a context."""
    if e.family == "aggregation":
        return {r[1] for r in records(e.context)}
    return {line.split(". ")[0] for line in e.context.split("\n")} if e.family == "research" else set()


def test_heldout_names_never_occur_in_training_or_seen_examples(made):
    trained = set().union(*(named(e) for s in ("train", "seen") for e in made[s]))
    heldout = set().union(*(named(e) for e in made["heldout"]))
    assert len(trained) > 500 and len(heldout) > 200 and not trained & heldout


def test_heldout_names_stand_nowhere_in_the_text_of_training(made):
    heldout = set().union(*(named(e) for e in made["heldout"]))
    pairs = {m for e in made["train"] for m in re.findall(r"(?=\b([A-Z][a-z]+ [A-Z][a-z]+)\b)", e.context + "\n" + e.question)}
    assert not heldout & pairs


def skeleton(question):
    """The wording of a question: names, labels, files and back-ticks taken out."""
    question = re.sub(r"`[^`]+`|\S+\.py|[A-Z][a-z]+ [A-Z][a-z]+(?= |\?|\.|,|$)", "_", question)
    return re.sub(rf"\b({'|'.join(NOUNS)})\b", "_", question)


def test_heldout_wordings_never_occur_in_training_or_seen_examples(made):
    trained = {skeleton(e.question) for s in ("train", "seen") for e in made[s]}
    heldout = {skeleton(e.question) for e in made["heldout"]}
    assert len(trained) > 20 and len(heldout) > 10 and not trained & heldout


def test_heldout_code_never_occurs_in_training_or_seen_examples(made):
    trained = {path for s in ("train", "seen") for e in made[s] if e.family == "coding" for path in files(e.context)}
    heldout = {path for e in made["heldout"] if e.family == "coding" for path in files(e.context)}
    assert trained and heldout and not trained & heldout


def test_seen_examples_are_new(made):
    trained = {(e.question, e.context) for e in made["train"]}
    assert not trained & {(e.question, e.context) for e in made["seen"]}


@contextlib.contextmanager
def at_most(seconds):
    """Fails the test where the code inside may never end."""

    def stop(*_):
        pytest.fail(f"did not end within {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_names_do_not_run_out():
    """A held-out context of 2.5 million characters has about 4,500 people."""
    rng, used = random.Random(0), set()
    with at_most(4):
        for _ in range(4500):
            names.person(rng, True, used)
    assert len(used) == 4500


def test_contexts_too_short_for_a_question_on_code_end_in_an_example_or_an_error():
    config = Tasks(min_chars=1000, max_chars=2000, aggregation=0.0, research=0.0, coding=1.0)
    with at_most(4), contextlib.suppress(RlmError):
        assert example(config, "train", 0, 7).context


# --- the offline leaf


def read(prompt: str) -> str:
    return asyncio.run(LexicalLeaf().complete(prompt)).text


WINDOW = 7_500  # characters of an excerpt that a leaf prompt has room for
ONE_READING = ("birthplace", "occupation", "year", "hidden_user", "shown_user", "params", "base")


def key_of(e):
    if e.family == "coding":
        return name_in(e.question)
    if e.family == "research":
        return subject_of(e)
    return next(user for user in {r[1] for r in records(e.context)} if user in e.question)


@pytest.fixture(scope="module")
def readable():
    """Questions that one reading of the right place can answer, over contexts of several windows."""
    config = Tasks(min_chars=15_000, max_chars=40_000, two_hop=0.0)
    return [e for i in range(700) if (e := example(config, "train", i, 11)).task in ONE_READING]


def evidence(e, margin=0):
    """(start, end) of the text that answers the question: the lines with the name, or the definition."""
    word = {"params": "def", "base": "class"}[e.task]
    start = e.context.index(f"{word} {key_of(e)}(")
    return start, start + 500


def excerpt(e, length):
    """All evidence and other text around it, up to about `length` characters."""
    if e.family == "coding":
        start, end = evidence(e)
        begin = max(0, start - max(0, length - 500) // 2)
        return e.context[begin : max(end, begin + length)]
    key = key_of(e)
    starts = e.family == "research"
    return with_others(e, [i for i, line in enumerate(e.context.split("\n")) if (line.startswith(key) if starts else key in line)], length)


def with_others(e, own, length):
    """The lines `own` of the context and random others up to a length, in the context's order."""
    lines = e.context.split("\n")
    size, chosen = sum(len(lines[i]) for i in own), set(own)
    for i in random.Random(e.id).sample(range(len(lines)), len(lines)):
        if i not in chosen and size + len(lines[i]) < length:
            chosen.add(i)
            size += len(lines[i]) + 1
    return "\n".join(lines[i] for i in sorted(chosen))


def accuracy(questions, answer):
    return sum(answer(e) == e.answer for e in questions) / len(questions)


@pytest.fixture(scope="module")
def short_accuracy(readable):
    return accuracy(readable, lambda e: read(f"{e.question}\n{excerpt(e, 500)}"))


def test_leaf_is_mostly_right_on_short_excerpts(readable, short_accuracy):
    assert len(readable) > 300 and 0.85 < short_accuracy < 1.0


@pytest.mark.parametrize("length", [2000, WINDOW])
def test_leaf_is_about_as_right_on_long_excerpts(readable, short_accuracy, length):
    """The same questions with 4 and 15 times the text around the evidence: at most 4 points apart."""
    assert abs(accuracy(readable, lambda e: read(f"{e.question}\n{excerpt(e, length)}")) - short_accuracy) <= 0.04


@pytest.fixture(scope="module")
def two_hop():
    """(question, line numbers of its two pages)."""
    config = Tasks(min_chars=15_000, max_chars=40_000, two_hop=1.0, aggregation=0.0, research=1.0, coding=0.0)
    found = []
    for e in examples(config, "train", 250, 11):
        subject = subject_of(e)
        middle = fact(e.context, subject, "birthplace" if e.task == "born_country" else "teacher")
        found.append((e, [i for i, line in enumerate(e.context.split("\n")) if line.startswith((f"{subject}. ", f"{middle}. "))]))
    return found


@pytest.mark.parametrize("task", ["born_country", "teacher_occupation"])
def test_leaf_is_about_as_right_on_two_pages_among_many(two_hop, task):
    """Both pages alone, then in a full window: at most 4 points apart."""

    def right(e, own, length):
        return read(f"{e.question}\n{with_others(e, own, length)}") == e.answer

    asked = [(e, own) for e, own in two_hop if e.task == task]
    alone, among = (sum(right(e, own, length) for e, own in asked) / len(asked) for length in (0, WINDOW))
    assert len(asked) > 100 and alone > 0.85 and abs(alone - among) <= 0.04


def test_mapping_over_all_chunks_is_about_as_right_as_selecting(readable, short_accuracy):
    """Every chunk asked, counts added, else the first answer that is one: at most 5 points below selecting."""

    def over_all(e):
        if e.family == "coding":
            chunks = [e.context[i : i + WINDOW] for i in range(0, len(e.context), WINDOW - 500)]
        else:
            chunks, lines = [""], e.context.split("\n")
            for line in lines:
                if len(chunks[-1]) + len(line) > WINDOW:
                    chunks.append("")
                chunks[-1] += line + "\n"
        replies = [read(f"{e.question}\n{chunk.rstrip()}") for chunk in chunks]
        if e.family == "aggregation":
            return str(sum(int(r) for r in replies if r.isdigit()))
        return next((r for r in replies if r != NOT_FOUND), NOT_FOUND)

    assert accuracy(readable, over_all) >= short_accuracy - 0.05


def test_leaf_says_not_found_where_there_is_no_evidence(readable):
    for e in readable[:100]:
        other = next(o for o in readable if o.family == e.family and o.id != e.id)
        if key_of(e) in excerpt(other, 1000):
            continue
        reply = read(f"{e.question}\n{excerpt(other, 1000)}")
        assert reply in (NOT_FOUND, "0"), e.id


def test_leaf_answers_the_same_prompt_the_same(readable):
    assert all(read(f"{e.question}\n{e.context[:5000]}") == read(f"{e.question}\n{e.context[:5000]}") for e in readable[:50])


def test_leaf_costs_a_token_for_four_characters():
    reply = asyncio.run(LexicalLeaf().complete("x" * 400))
    assert (reply.prompt_tokens, reply.completion_tokens) == (101, len(reply.text) // 4 + 1)


@pytest.mark.parametrize(
    "prompt", ["", "\n", "?", "`\n", "`x`", "Which label?\n | | | ", "Where was A born?\n\ud800", "How many parameters `f`\ndef f(" * 50]
)
def test_leaf_survives_any_prompt(prompt):
    assert isinstance(read(prompt), str)
