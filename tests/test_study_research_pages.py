"""Pages and distractors: pieces whose tokens add up, the cache of counts, pages by title, distractors to a token target."""

import json
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlmlib.errors import DataError
from rlmlib.tasks.sources.documents import Document, FileSource
from rlmlib.tasks.study import tokens
from rlmlib.tasks.study.research import pool as pool_module
from rlmlib.tasks.study.research.drown import Distractors, arranged, nearest_sum, shuffled
from rlmlib.tasks.study.research.pages import PageStore
from rlmlib.tasks.study.research.pool import Pool, heading, piece

WORDS = "harbour lamp 1912 Größe rope, the of wind\u2028kite 風 (a) - 3.5".split(" ")


def texts(count, seed=0, words=(5, 120)):
    rng = random.Random(seed)
    return [f"Text {seed} {i}: " + " ".join(rng.choices(WORDS, k=rng.randint(*words))) for i in range(count)]


def source(folder, name, rows, **options):
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return FileSource(path, **options)


def pool_of(folder, name, count, seed=0, titles=None, words=(5, 120)):
    rows = [{"text": text, "title": titles[i] if titles else ""} for i, text in enumerate(texts(count, seed, words))]
    return Pool(source(folder, name, rows), folder / "cache")


# --- pieces


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=60)), min_size=1, max_size=6))
def test_tokens_of_pieces_add_up(documents):
    from rlmlib.tasks.sources.documents import clean

    pieces = [piece(clean(title), clean(text)) for title, text in documents]
    assert sum(map(tokens.count, pieces)) == tokens.count("".join(pieces))


def test_only_headings_begin_with_their_mark():
    made = piece("A \n title", "===== page: false =====\nmiddle\n===== page: again =====")
    assert made == "===== page: A title =====\n ===== page: false =====\nmiddle\n ===== page: again =====\n"


@pytest.mark.parametrize(
    "document, expected",
    [
        (Document("1", "Its title", "text", "https://en.wikipedia.org/wiki/Other"), "Its title"),
        (Document("1", "", "text", "https://en.wikipedia.org/wiki/Linked_page"), "Linked page"),
        (Document("1", "", "First  line\nsecond", "https://shop.test/a"), "First line"),
        (Document("1", "", "word " * 60, "https://[shop/a"), ("word " * 20).strip()),
        (Document("1", "", "w" * 300), "w" * 100),
    ],
)
def test_heading(document, expected):
    assert heading(document) == expected


# --- the cache of counts


def test_pool_has_pieces_in_order_and_exact_counts(tmp_path):
    pool = pool_of(tmp_path, "a.jsonl", 40)
    pieces = pool.pieces(range(40))
    assert [text.split("\n", 1)[1].strip() for text in pieces] == texts(40)
    assert pool.tokens.tolist() == [tokens.count(text) for text in pieces]
    assert pool.pieces([7, 3, 7]) == [pieces[7], pieces[3], pieces[7]]


def test_a_source_is_counted_once(tmp_path, monkeypatch):
    first = pool_of(tmp_path, "a.jsonl", 10)
    monkeypatch.setattr(pool_module.tokens, "count", lambda text: pytest.fail("counted again"))
    again = pool_of(tmp_path, "a.jsonl", 10)
    assert again.path == first.path and again.tokens.tolist() == first.tokens.tolist()


def test_a_changed_source_gets_another_file(tmp_path):
    before = pool_of(tmp_path, "a.jsonl", 10)
    after = pool_of(tmp_path, "a.jsonl", 11)
    assert before.path != after.path and before.fingerprint != after.fingerprint and len(after.tokens) == 11
    assert len(before.pieces(range(10))) == 10


def test_an_interrupted_count_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(pool_module.tokens, "count", lambda text: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        pool_of(tmp_path, "a.jsonl", 10)
    assert list((tmp_path / "cache").iterdir()) == []
    monkeypatch.undo()
    assert len(pool_of(tmp_path, "a.jsonl", 10).tokens) == 10


def test_damaged_cache_and_empty_source_are_said(tmp_path):
    path = pool_of(tmp_path, "a.jsonl", 10).path
    path.write_bytes(path.read_bytes()[:100] + b"garbage" * 900)
    with pytest.raises(DataError, match="the cache is damaged .* delete this file"):
        pool_of(tmp_path, "a.jsonl", 10)
    with pytest.raises(DataError, match="empty.jsonl: holds no document with text"):
        Pool(source(tmp_path, "empty.jsonl", [{"text": " "}]), tmp_path / "cache")


def test_a_cache_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "cache").write_text("a file, not a folder")
    with pytest.raises(DataError, match="cache: the cache cannot be written .* give another folder"):
        pool_of(tmp_path, "a.jsonl", 2)


def test_threads_read_one_pool(tmp_path):
    pool = pool_of(tmp_path, "a.jsonl", 60)
    expected = pool.pieces(range(60))
    with ThreadPoolExecutor(8) as threads:
        assert all(found == expected for found in threads.map(lambda _: pool.pieces(range(60)), range(24)))


# --- pages by title


def test_pages_are_found_by_title_or_link_in_several_sources(tmp_path):
    first = source(tmp_path, "dump.jsonl", [{"title": "Wind vane", "text": "It turns."}, {"title": "Not wanted", "text": "x"}])
    second = source(
        tmp_path,
        "pages.jsonl",
        [
            {"link": "https://en.wikipedia.org/wiki/Kite_(toy)", "text": "It flies."},
            {"title": "Moved", "link": "https://en.wikipedia.org/wiki/Old_name", "text": "Known by its link."},
            {"title": "wind_vane", "text": "A second page of that title."},
        ],
    )
    store = PageStore([first, second], ["Wind vane", "kite_(toy)", "Old name", "Missing"], tmp_path / "cache")
    assert all(title in store for title in ("Wind vane", "Kite (toy)", "Old name"))
    assert not any(title in store for title in ("Missing", "Not wanted", "Moved"))
    pieces = store.pieces(["Old name", "Wind vane", "Kite (toy)"])
    assert pieces == [piece("Old name", "Known by its link."), piece("Wind vane", "It turns."), piece("Kite (toy)", "It flies.")]
    assert store.tokens(["Old name", "Wind vane"]) == tokens.count(pieces[0]) + tokens.count(pieces[1])
    with pytest.raises(KeyError):
        store.pieces(["Missing"])


def test_a_store_without_any_page_is_empty(tmp_path):
    store = PageStore([source(tmp_path, "a.jsonl", [{"title": "Else", "text": "x"}])], ["Wanted"], tmp_path / "cache")
    assert "Wanted" not in store


# --- distractors


def test_shuffled_is_a_fair_permutation():
    assert sorted(shuffled(50, random.Random(1))) == list(range(50))
    firsts = Counter(next(shuffled(5, random.Random(seed))) for seed in range(2000))
    lasts = Counter(list(shuffled(5, random.Random(seed)))[-1] for seed in range(2000))
    assert all(320 < count < 480 for counts in (firsts, lasts) for count in counts.values()) and len(firsts) == len(lasts) == 5


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 400), min_size=1, max_size=80), st.integers(-50, 20_000), st.integers(0, 3))
def test_no_other_last_choice_brings_the_sum_nearer(sizes, budget, seed):
    chosen = nearest_sum(np.array(sizes), budget, random.Random(seed))
    assert len(chosen) == len(set(chosen))
    left = budget - sum(sizes[i] for i in chosen)
    rest = [size for i, size in enumerate(sizes) if i not in chosen]
    assert all(abs(left - size) >= abs(left) for size in rest)
    assert left >= -200 or budget < 0
    if budget <= 0:
        assert chosen == []


def test_contexts_meet_their_target_within_a_few_tokens(tmp_path):
    """Sizes as those of C4: a few tokens to some hundred, a few very long ones."""
    rng = random.Random(5)
    sizes = np.array([min(8000, 20 + int(rng.lognormvariate(5.5, 1.0))) for _ in range(3000)])
    for target in (20_000, 100_000, 437_000):
        chosen = nearest_sum(sizes, target, random.Random(target))
        assert abs(sizes[chosen].sum() - target) <= 20


def test_halves_share_no_text_where_the_pool_is_large_enough(tmp_path):
    pools = [pool_of(tmp_path, "a.jsonl", 300, seed=1), pool_of(tmp_path, "b.jsonl", 200, seed=2)]
    distractors = Distractors(pools, [], longest=4000)
    assert not distractors.shared and distractors.side("train") == "train"
    halves = {side: distractors.pieces(distractors.draw(side, 10**9, "all")) for side in ("train", "eval")}
    assert not set(halves["train"]) & set(halves["eval"])
    assert len(halves["train"]) + len(halves["eval"]) == 500
    assert 0.4 < len(halves["train"]) / 500 < 0.6
    assert min(distractors.available(side) for side in halves) >= 2 * 4000


def test_a_small_pool_is_shared(tmp_path):
    distractors = Distractors([pool_of(tmp_path, "a.jsonl", 300)], [], longest=50_000)
    assert distractors.shared and distractors.side("train") == distractors.side("eval") == "shared"
    assert len(distractors.draw("shared", 10**9, "all")) == 300


def test_a_text_is_on_the_same_side_in_every_source(tmp_path):
    rows = [{"text": text} for text in texts(200)]
    one = Distractors([Pool(source(tmp_path, "a.jsonl", rows), tmp_path / "cache")], [], longest=100)
    two = Distractors([Pool(source(tmp_path, "b.jsonl", rows[::-1]), tmp_path / "cache")], [], longest=100)
    assert set(one.pieces(one.draw("eval", 10**9, "x"))) == set(two.pieces(two.draw("eval", 10**9, "y")))


def test_repeated_texts_and_barred_titles_are_left_out(tmp_path):
    rows = [{"title": f"t{i}", "text": text} for i, text in enumerate(texts(20))]
    first = Pool(source(tmp_path, "a.jsonl", [*rows, {"title": "again", "text": rows[3]["text"]}]), tmp_path / "cache")
    second = Pool(source(tmp_path, "b.jsonl", [rows[5], {"title": "t7", "text": "of that title too"}]), tmp_path / "cache")
    distractors = Distractors([first, second], ["t7", "unknown"], longest=10**6)
    found = distractors.pieces(distractors.draw("shared", 10**9, "all"))
    assert distractors.repeated == 2 and distractors.barred == 2
    assert sorted(found) == sorted(piece(row["title"], row["text"]) for i, row in enumerate(rows) if i != 7)


def test_draws_depend_on_the_seed_alone(tmp_path):
    distractors = Distractors([pool_of(tmp_path, "a.jsonl", 200)], [], longest=10**6)
    assert distractors.draw("shared", 3000, "s").tolist() == distractors.draw("shared", 3000, "s").tolist()
    assert distractors.draw("shared", 3000, "s").tolist() != distractors.draw("shared", 3000, "t").tolist()


def test_places_are_even():
    """A page of its own lies anywhere, the ends included."""
    others = [f"{i}\n" for i in range(9)]
    places = Counter(arranged(["own\n"], others, f"{seed}").split("\n").index("own") for seed in range(3000))
    assert len(places) == 10 and all(230 < count < 370 for count in places.values())
    assert sorted(arranged(["own\n"], others, "x")) == sorted("own\n" + "".join(others))
