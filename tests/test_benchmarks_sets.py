"""CodeQA of LongBench-v2 and BrowseComp-Plus: small files in their layouts, written here."""

import base64
import hashlib
import json
import re

import pytest
from test_benchmarks import DATA, refusal, with_data, write

from rlmlib.errors import ConfigError
from rlmlib.tasks.benchmarks import browsecomp
from rlmlib.tasks.benchmarks.base import needs_judge, score
from rlmlib.tasks.benchmarks.load import load

# --- CodeQA


def longbench(count: int, code: int, **changed) -> list[dict]:
    """`count` rows in the layout of LongBench-v2, the first `code` of them on code repositories."""
    return [
        {
            "_id": f"id{number:03d}",
            "domain": "Code Repository Understanding" if number < code else "Single-Document QA",
            "sub_domain": "Code repo QA" if number % 2 else "Code Repo QA",
            "difficulty": "hard",
            "length": "medium",
            "question": f"Which function opens file {number}?",
            **{f"choice_{letter}": f"open_{letter}{number}" for letter in "ABCD"},
            "answer": "ABCD"[number % 4],
            "context": f"def open_A{number}(): ...",
            **changed,
        }
        for number in range(count)
    ]


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".parquet"])
def test_questions_on_code_are_chosen_with_their_choices(tmp_path, suffix):
    path = write(tmp_path / f"data{suffix}", longbench(8, 3))
    found = list(load("codeqa", path))
    assert [item.id for item in found] == ["codeqa/id000", "codeqa/id001", "codeqa/id002"]
    assert found[1].golds == ("B",) and "\n(B) open_B1\n" in found[1].question
    assert found[1].context == "def open_A1(): ..."
    assert score(found[1], "The correct answer is (B)") == 1 and score(found[1], "C") == 0


def test_the_domain_is_compared_without_case(tmp_path):
    path = write(tmp_path / "data.json", longbench(2, 0, domain="code repository understanding "))
    assert len(list(load("codeqa", path))) == 2


def test_the_whole_set_must_have_fifty_questions_on_code(tmp_path):
    path = write(tmp_path / "whole.jsonl", longbench(503, 50))
    found = list(load("codeqa", path))
    assert len(found) == 50 and len(list(load("codeqa", path, 7, seed=1))) == 7
    short = write(tmp_path / "short.jsonl", longbench(503, 49))
    assert "49 of 503 rows are on code, not 50" in refusal("codeqa", short)


def test_bad_rows_of_codeqa_are_named(tmp_path):
    bad = write(tmp_path / "bad.json", longbench(2, 2, answer="E"))
    assert "row id000, column 'answer' is 'E'" in refusal("codeqa", bad)
    bare = [{key: value for key, value in row.items() if key != "choice_D"} for row in longbench(2, 2)]
    assert "no column 'choice_D'" in refusal("codeqa", write(tmp_path / "bare.json", bare))
    assert "none of 4 rows has the domain" in refusal("codeqa", write(tmp_path / "other.json", longbench(4, 0)))
    assert "'context' is int" in refusal("codeqa", write(tmp_path / "type.jsonl", longbench(1, 1, context=3)))


# --- BrowseComp-Plus

CANARY = "a password that only these tests know"


def encrypted(text: str, canary: str = CANARY) -> str:
    """The cipher of the data set, written a second time: base64 of the bytes under XOR with a repeated digest."""
    key, data = hashlib.sha256(canary.encode()).digest(), text.encode()
    return base64.b64encode(bytes(byte ^ key[place % 32] for place, byte in enumerate(data))).decode()


def documents(*ids: int) -> list[dict]:
    return [
        {name: encrypted(text) for name, text in (("docid", str(i)), ("text", f"Page {i} tells of née {i}."), ("url", f"u/{i}"))}
        for i in ids
    ]


def browsecomp_rows(count: int = 4) -> list[dict]:
    return [
        {
            "query_id": str(q),
            "query": encrypted(f"Who wrote the long and unusual letter number {q}?"),
            "answer": encrypted(f"Märta Quill {q}"),
            "gold_docs": documents(100 * q + 1),
            "evidence_docs": documents(100 * q + 1, 100 * q + 2),
            "negative_docs": documents(*range(100 * q + 3, 100 * q + 13)),
        }
        for q in range(count)
    ]


@pytest.fixture(params=[".jsonl", ".parquet"])
def secret(tmp_path, request):
    return write(tmp_path / f"test-00000{request.param}", browsecomp_rows())


def test_rows_are_decrypted_and_their_documents_are_k(secret):
    found = list(load("browsecomp_plus", secret, canary=CANARY, k=6))
    assert [item.golds for item in found] == [(f"Märta Quill {q}",) for q in range(4)]
    assert found[2].question == "Who wrote the long and unusual letter number 2?"
    for q, item in enumerate(found):
        ids = [int(docid) for docid in re.findall(r"^### document (\d+): u/\d+$", item.context, re.MULTILINE)]
        assert len(ids) == len(set(ids)) == 6 and {100 * q + 1, 100 * q + 2} <= set(ids)
        assert f"Page {100 * q + 1} tells of née {100 * q + 1}." in item.context
        assert item.metadata == {"documents": 6, "needed": 2, "others": "negatives"}


def test_documents_are_shuffled_by_seed(secret):
    first, again, other = ([i.context for i in load("browsecomp_plus", secret, 4, seed, canary=CANARY, k=6)] for seed in (0, 0, 1))
    assert first == again and first != other
    starts = {context.split(":")[0].removeprefix("### document ")[-1] for context in first + other}
    assert len(starts) > 2  # the gold document is not always in front


def test_a_sample_of_questions_is_the_same_each_time(tmp_path):
    path = write(tmp_path / "a.jsonl", browsecomp_rows(9))
    first, again, other = ([i.id for i in load("browsecomp_plus", path, 3, seed, canary=CANARY, k=2)] for seed in (0, 0, 5))
    assert len(first) == 3 and first == again
    assert [name.split("/")[-1] for name in first] != [name.split("/")[-1] for name in other]


def test_more_documents_come_from_the_corpus(tmp_path, secret):
    corpus = [{"docid": str(i), "text": f"Plain page {i}.", "url": f"u/{i}"} for i in [101, 102, *range(5000, 5028)]]
    path = write(tmp_path / "corpus.jsonl", corpus)
    item = list(load("browsecomp_plus", secret, canary=CANARY, k=30, corpus=path))[1]
    ids = sorted(int(docid) for docid in re.findall(r"^### document (\d+):", item.context, re.MULTILINE))
    assert ids == [101, 102, *range(5000, 5028)]  # what is needed is not taken from the corpus a second time
    assert "Plain page 5000." in item.context and "Plain page 101." not in item.context
    assert item.metadata["others"] == "corpus"


def test_the_pool_of_a_large_corpus_is_drawn_from_all_of_it(tmp_path):
    corpus = [{"docid": str(i), "text": "t", "url": "u"} for i in range(3000)]
    pools = [browsecomp._pool(write(tmp_path / "corpus.parquet", corpus), 60, seed) for seed in (0, 0, 1)]
    ids = [int(docid) for docid, _, _ in pools[0]]
    assert len(set(ids)) == 60 and pools[0] == pools[1] != pools[2]
    assert min(ids) < 500 and max(ids) > 2500 and 1000 < sum(ids) / 60 < 2000


def test_too_few_documents_are_an_error(secret):
    assert "query_id 0 has 12 documents, not 50; lower k, or name the corpus" in refusal("browsecomp_plus", secret, canary=CANARY)
    assert "k: 0 documents" in refusal("browsecomp_plus", secret, canary=CANARY, k=0, error=ConfigError)


def test_the_canary_comes_from_the_environment_or_the_official_script(secret, tmp_path, monkeypatch):
    monkeypatch.delenv(browsecomp.CANARY_VARIABLE, raising=False)
    assert browsecomp.CANARY_VARIABLE in refusal("browsecomp_plus", secret, k=3, error=ConfigError)
    script = tmp_path / "decrypt_dataset.py"
    for source in (
        f"import os\nDEFAULT_CANARY = {CANARY!r}\nos._exit(1)\n",
        f"p.add_argument('--limit', default='9')\np.add_argument('--canary', type=str, default={CANARY!r})\n",
    ):
        script.write_text(source)
        assert len(list(load("browsecomp_plus", secret, script=script, k=3))) == 4
    script.write_text("OTHER = 'x'\n")
    assert "with 'canary' in it" in refusal("browsecomp_plus", secret, script=script)
    script.write_text("def (")
    assert "no readable Python file" in refusal("browsecomp_plus", secret, script=script)
    monkeypatch.setenv(browsecomp.CANARY_VARIABLE, CANARY)
    assert len(list(load("browsecomp_plus", secret, k=3))) == 4


def test_a_wrong_canary_is_one_line_that_quotes_nothing(secret):
    message = refusal("browsecomp_plus", secret, canary="wrong password", k=3)
    assert "query_id 0, column 'query' is garbage when decrypted: the canary is wrong" in message
    assert "wrong password" not in message and "letter" not in message


def test_bad_rows_of_browsecomp_are_named(tmp_path):
    row = browsecomp_rows(1)[0]
    plain = write(tmp_path / "plain.jsonl", [row | {"answer": "Märta Quill, not encrypted"}])
    assert "query_id 0, column 'answer' is not base64" in refusal("browsecomp_plus", plain, canary=CANARY, k=3)
    short = write(tmp_path / "short.jsonl", [row | {"gold_docs": [{"docid": "QQ=="}]}])
    assert "column 'gold_docs': document 1 has no text in the field 'text'" in refusal("browsecomp_plus", short, canary=CANARY, k=3)
    wrong = write(tmp_path / "wrong.jsonl", [row | {"negative_docs": "none"}])
    assert "column 'negative_docs' is str, not list" in refusal("browsecomp_plus", wrong, canary=CANARY, k=3)


def test_nothing_decrypted_is_in_the_repr_and_only_a_judge_settles_the_rest(secret):
    item = next(load("browsecomp_plus", secret, canary=CANARY, k=3))
    assert not any(text in repr(item) for text in ("Quill", "letter", "Page", CANARY))
    assert score(item, "märta quill 0") == 1 and not needs_judge(item, "märta quill 0")
    assert score(item, "It was Märta.") == 0 and needs_judge(item, "It was Märta.")
    assert score(item, None) == 0 and not needs_judge(item, None) and not needs_judge(item, " ")


@with_data
def test_the_fixture_of_the_public_data_is_decrypted():
    folder = DATA / "browsecomp_plus_fixture"
    expected = json.loads((folder / "expected.json").read_text())
    found = list(load("browsecomp_plus", folder / "encrypted.jsonl", canary=expected["password"], k=3))
    assert {item.id.split("/")[-1]: item.golds[0] for item in found} == expected["decrypted_answers"]
