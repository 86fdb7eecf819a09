"""Contexts in memory files: what is shared, what is not, and what a worker cannot have."""

import os
import pickle
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from datetime import date

import numpy
import pytest

from rlmlib.errors import ConfigError
from rlmlib.harness import contexts
from rlmlib.harness.contexts import ContextFiles


@dataclass
class Own:
    a: int = 1


Pair = namedtuple("Pair", "a b")


@pytest.fixture
def files(tmp_path):
    made = ContextFiles(str(tmp_path))
    yield made
    made.close()


def content(descriptor: int) -> bytes:
    data = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    os.close(descriptor)
    return data


def same_file(one: int, other: int) -> bool:
    return os.path.sameopenfile(one, other)


def test_a_text_is_written_once(files):
    text = "naïve \ud800 " * 50_000
    assert same_file(files.descriptor(text), files.descriptor(text))
    assert content(files.descriptor(text)) == text.encode("utf-8", "surrogatepass")


def test_a_dict_that_has_changed_comes_as_it_is_now(files):
    context = {"a": 1}
    assert pickle.loads(content(files.descriptor(context))) == {"a": 1}
    context["a"] = 2
    assert pickle.loads(content(files.descriptor(context))) == {"a": 2}


@pytest.mark.parametrize("context", [[date(2024, 5, 1), 1.5, None], {"k": OrderedDict(a=1)}, ({1, 2}, b"bytes", 3 + 4j), []])
def test_plain_values_and_the_standard_library_pass(files, context):
    assert pickle.loads(content(files.descriptor(context))) == context


@pytest.mark.parametrize(
    "context, named",
    [([numpy.arange(3)], "numpy"), ([Own()], "Own"), ({"f": lambda: 1}, "function"), ([Own], "Own"), ([Pair(1, 2)], "Pair")],
)
def test_what_a_worker_cannot_have_is_named(files, context, named):
    with pytest.raises(ConfigError, match=f"context: holds a .*{named}.*give str"):
        files.descriptor(context)


def test_what_cannot_be_pickled_is_one_line(files):
    with pytest.raises(ConfigError, match="context: cannot be given to a worker"):
        files.descriptor([(number for number in range(3))])


def test_deep_nesting_is_one_line(files):
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ConfigError, match="nested too deeply"):
        files.descriptor(deep)


def test_only_the_newest_are_kept(files, monkeypatch):
    texts = [f"text {number}" * 100 for number in range(6)]
    for text in texts:
        os.close(files.descriptor(text))
    files.tidy()
    assert [text for text, *_ in files._kept] == texts[-contexts._KEPT :]
    monkeypatch.setattr(contexts, "_KEPT_BYTES", 1000)
    files.tidy()
    assert [text for text, *_ in files._kept] == texts[-1:]


def test_a_refused_context_leaves_no_descriptor(files):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with pytest.raises(ConfigError):
            files.descriptor([Own()])
    assert len(os.listdir("/proc/self/fd")) == before
