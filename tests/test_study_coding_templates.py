"""Each kind of question on small files whose answers were counted by hand; and the independent check against both."""

import ast
import json
import random

import code_check
import pytest

from rlmlib.tasks.sources.codebases import piece
from rlmlib.tasks.study.coding.analysis import imported, index, read_module
from rlmlib.tasks.study.coding.bindings import bindings
from rlmlib.tasks.study.coding.family import HELD_OUT, TEMPLATES
from rlmlib.tasks.study.coding.template import Case, pick
from rlmlib.tasks.study.coding.view import View

BY_ID = {template.id: template for template in TEMPLATES}

CORE = '''"""Core of the shop."""
import os
import shop.prices as prices
from . import tools
from .tools import (
    weigh,
    pack as wrap,
)

__all__ = ["Cart", "Basket", "total"]
LIMIT = 0x1F
NAME = "a" 'b'
MANY = {"x": 1, "y": lambda a, b: (a, b), **{}}
SIZES = {"s": 1, "m": (2, 3), "l": [4, 5],}
WIDTH: int = -3
COMPUTED = 5 * 60
rate = 1
if LIMIT:
    rate = 2
for rate in range(3):
    rate += 1
with open(os.devnull) as handle, open(os.devnull) as (first, *others):
    pass
declared: int


def total(items, /, start=0, *rest, scale: float = 1.5, tag=None, **more) -> dict[str, int]:
    """Sum."""
    count = start
    for item in items:
        while item:
            count, item = count + 1, None
        else:
            for _ in rest:
                pass
    values = [count for count in items if (last := count)]
    try:
        return {"n": count}
    except OSError as count:
        raise prices.Wrong(values) from None
    except (ValueError, TypeError):
        raise
    except:
        raise KeyError
    finally:
        def inner():
            count = 9
            return count
        return inner()


async def fetch(): yield f"{(lambda: total(1))()} {weigh(2)}"


def counting():
    global rate, LIMIT
    rate = 5; return lambda: (yield)


class Base:
    limit = 1

    def __init__(self, size: "int" = 2):
        self.size = size
        self.other, self.kind = 1, 2

    @property
    def area(self):
        b"no docstring"
        return self.size

    @area.setter
    def area(self, value):
        self.size += value

    @prices.cached(limit=3)
    @staticmethod
    def grow(self, by):
        self.kind: str
        def inner():
            self.size = by
        return inner

    if LIMIT:
        def extra(self): return 1

    class Part(Exception): pass


class Cart(Base, metaclass=type):
    def area(self):
        f"no docstring either"
        return wrap(self.size)

    def again(self): return 1


class Basket(tools.Cart[int]):
    """Another."""
'''
TOOLS = """from shop import core
import shop.core.inner
from ..outside import nothing


def weigh(x): return core.total(x)


def pack(x):
    try:
        return weigh(weigh(x))
    finally:
        pass


def longest(x):
    y = (
        x
    )

    return y
# no part of it


class Bag(Base): pass


class Part(Bag):
    class Deep(Part): pass
"""
PRICES = "import json\n\n\ndef cached(limit):\n    return weigh\n\n\nclass Wrong(Exception):\n    pass\n"
FILES = {"shop/core.py": CORE, "shop/prices.py": PRICES, "shop/tools.py": TOOLS, "shop/empty.py": ""}
CONTEXT = "".join(piece(path, text) for path, text in sorted(FILES.items()))


def never(case: Case) -> bool:
    return False


def cases(id_: str, files: dict[str, str] = FILES, folder: str = "") -> list[Case]:
    template = BY_ID[id_]
    if template.of_view:
        return list(template.of_view(View({path: index(path, ast.parse(text)) for path, text in files.items()}, folder)))
    return [case for path, text in files.items() if template.word in text for case in template.of_file(read_module(path, text))]


def answers(id_: str, files: dict[str, str] = FILES, **target) -> list:
    return [case.answer for case in cases(id_, files) if target.items() <= case.target.items()]


def line(text: str, start: str) -> int:
    """Number of the one line that begins with something."""
    (found,) = [number for number, row in enumerate(text.split("\n"), 1) if row.startswith(start)]
    return found


@pytest.mark.parametrize(
    ("id_", "target", "answer"),
    [
        ("T01", {"file": "shop/core.py"}, 3),
        ("T02", {"file": "shop/core.py"}, 4),
        ("T03", {"file": "shop/core.py"}, 3),
        ("T04", {"file": "shop/core.py"}, ["LIMIT", "rate"]),
        ("T06", {"file": "shop/core.py"}, 3),
        ("T07", {"name": "NAME"}, "'ab'"),
        ("T07", {"name": "WIDTH"}, "-3"),
        ("T08", {"name": "SIZES"}, 3),
        ("T09", {"function": "total"}, 6),
        ("T09", {"function": "fetch"}, 0),
        ("T10", {"function": "total", "parameter": "start"}, "0"),
        ("T10", {"function": "total", "parameter": "scale"}, "1.5"),
        ("T10", {"function": "Base.__init__", "parameter": "size"}, "2"),
        ("T11", {"function": "Base.grow"}, ["prices.cached", "staticmethod"]),
        ("T12", {"function": "total"}, ["KeyError", "prices.Wrong"]),
        ("T14", {"function": "total"}, 2),
        ("T15", {"function": "total"}, 2),
        ("T16", {"function": "total"}, "dict[str, int]"),
        ("T17", {"class": "Base"}, 3),
        ("T18", {"class": "Base", "attribute": "size"}, ["__init__", "area", "grow"]),
        ("T18", {"class": "Base", "attribute": "kind"}, ["__init__"]),
        ("T19", {"decorator": "prices.cached"}, ["grow"]),
        ("T20", {"module": "shop.tools"}, ["shop/core.py"]),
        ("T20", {"module": "shop.core.inner"}, ["shop/tools.py"]),
        ("T20", {"module": "shop"}, ["shop/core.py", "shop/tools.py"]),
        ("T21", {"class": "Part"}, ["shop/core.py", "shop/tools.py"]),
        ("T22", {"function": "longest"}, "shop/tools.py"),
        ("T23", {"base": "Exception"}, ["Part", "Wrong"]),
        ("T23", {"base": "Cart"}, ["Basket"]),
        ("T24", {"class": "Basket"}, 3),
        ("T24", {"class": "Bag"}, 2),
        ("T25", {"folder": ""}, "total"),
        ("T26", {"folder": ""}, "shop/core.py"),
        ("T27", {"what": "functions defined with `async def`"}, 1),
        ("T27", {"what": "generator functions"}, 1),
        ("T27", {"what": "`except` clauses that name no exception (`except:`)"}, 1),
        ("T27", {"what": "functions without a docstring"}, 15),
        ("T27", {"what": "`try` statements with a `finally` part"}, 2),
        ("T28", {"function": "weigh"}, 3),
        ("T28", {"function": "total"}, 2),
    ],
)
def test_answers_counted_by_hand(id_, target, answer):
    assert answers(id_, **target) == [answer]
    (case,) = [case for case in cases(id_) if target.items() <= case.target.items()]
    assert code_check.recompute({"template": id_, "target": case.target}, CONTEXT) == case.gold


def test_lines_of_bindings():
    def lines(*starts):
        return [line(CORE, start) for start in starts]

    assert answers("T05", name="wrap") == [lines("    pack as wrap")]
    assert answers("T05", name="others") == [lines("with open(os.devnull)")]
    assert answers("T05", name="prices") == [lines("import shop.prices")]
    assert answers("T05", name="rate") == [] == answers("T05", name="declared")  # `global rate`; no value
    wanted = lines("    count = start", "            count, item", "    except OSError as count")
    assert answers("T13", function="total", name="count") == [wanted]
    assert answers("T13", function="total", name="last") == [lines("    values = ")]
    assert answers("T13", function="total", name="start") == []  # a parameter


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("x = 1\n\x0cy = '\u2028'\nx = 2\n", [1, 3]),
        ("x: int = 1\nx: int\nx += 1\n", [1, 3]),
        ("(y,\n *x) = x, z = w\n", [2]),
        ("import x.y\nimport a as x\nfrom m import (\n  b as\n  c, x)\n", [1, 2, 5]),
        ("@x\ndef x(): x = 1\n", [2]),
        ("@x\n\nclass x(x):\n    x = 1\n", [3]),
        ("[x for x in y]\n{x: 1 for y in z if (x := y)}\nlambda: (x := 1)\n", [2]),
        ("for x in y:\n    with z as x: pass\nelse:\n    x.y = x[0] = 1\n", [1, 2]),
        ("try:\n    x = 1\nexcept* E as x:\n    pass\n", [2, 3]),
        ("def f(a=(x := 1)) -> (x := 2): pass\n", [1]),
        ("while (x := y): pass\nasync def f(x): x = 1\n", [1]),
    ],
)
def test_what_binds_a_name(text, lines):
    found = bindings(ast.parse(text))
    assert found.lines["x"] == lines and "x" not in found.unclear
    target = {"file": "a.py", "name": "x"}
    assert code_check.recompute({"template": "T05", "target": target}, piece("a.py", text)) == json.dumps(lines)


@pytest.mark.parametrize(
    "text",
    [
        "x = 1\ndel x\n",
        "x = 1\ndef f():\n    global x\n",
        "match y:\n    case [x, *_]: pass\n",
        "match y:\n    case {**x}: pass\n",
        "import a.b as \\\n  x\n",
    ],
)
def test_names_with_debatable_lines_are_not_asked_about(text):
    assert "x" in bindings(ast.parse(text)).unclear


def test_names_in_files_with_hidden_bindings_are_not_asked_about():
    for text in ("from os import *\nx = 1\nx = 2\n", "exec('x = 3')\nx = 1\nx = 2\n"):
        assert cases("T05", {"a.py": text}) == []


def test_only_names_defined_once_are_asked_about():
    twice = "if a:\n    def f(x): pass\nelse:\n    def f(x, y): pass\n"
    nested = "try:\n    class C: pass\nexcept E:\n    class C:\n        def m(self): pass\n"
    module = read_module("a.py", twice + nested + "def g(): pass\ndef h(): pass\nclass h: pass\n")
    assert list(module.functions) == ["g"] and list(module.classes) == []
    files = {"a.py": "def f(): pass\ndef g(): pass\n", "b.py": "class C:\n    def f(self): pass\n"}
    assert [case.target["function"] for case in cases("T22", files | {"c.py": "def once(): pass\n"})] == ["once"]
    assert cases("T24", {"a.py": "class A: pass\nclass B(A): pass\n", "b.py": "class A: pass\n"}) == []


def test_ties_are_not_asked_about():
    files = {"a.py": "def f():\n    pass\n\nclass A: pass\n", "b.py": "def g():\n    pass\n\nclass B: pass\n"}
    assert cases("T25", files) == [] == cases("T26", files)


def test_circles_of_bases_are_not_asked_about():
    files = {"a.py": "class A(m.A): pass\nclass B(C): pass\nclass C(B): pass\nclass D(C): pass\nclass E: pass\nclass F(E): pass\n"}
    assert {case.target["class"]: case.answer for case in cases("T24", files)} == {"E": 1, "F": 2}


def test_constants_that_change_are_not_asked_about():
    changed = "A = 1\nA = 2\nB = 1\nB += 1\nC = D = 3\nE = 1\ndef f():\n    global E\n"
    text = changed + "F = {1, 2}\nF2 = ({'a', 'b'},)\nG = 1e999\nH = 7\nlower = 8\n"
    assert [case.target["name"] for case in cases("T07", {"a.py": text})] == ["H"]
    for changed in ("__all__ += ['c']", "__all__.append('c')", "__all__ = ['a']", "if x:\n    __all__.remove('a')"):
        assert cases("T06", {"a.py": f"__all__ = ['a', 'b']\n{changed}\n"}) == []
    assert cases("T08", {"a.py": "A = {1: 2, 1: 3}\nB = {**A}\nC = {*A}\nD = {}\n"}) == [Case({"file": "a.py", "name": "D"}, 0)]


def test_annotations_with_strings_are_not_asked_about():
    text = "def f() -> 'int': pass\ndef g() -> Literal[\"a\"]: pass\ndef h() -> (int): pass\ndef k() -> a|b: pass\n"
    assert {case.target["function"]: case.answer for case in cases("T16", {"a.py": text})} == {"h": "int", "k": "a | b"}


def test_raised_values_that_are_no_names_are_not_asked_about():
    for raised in ("error", "errors[0]", "make()", "self.failure()"):
        assert cases("T12", {"a.py": f"def f():\n    raise ValueError\n    raise {raised}\n"}) == []


def test_classes_whose_self_is_debatable_are_not_asked_about():
    for inner in ("class K:\n            def n(self): self.x = 2", "def n(self): self.x = 2", "f = lambda self: 1"):
        assert cases("T18", {"a.py": f"class C:\n    def m(self):\n        self.x = 1\n        {inner}\n"}) == []


@pytest.mark.parametrize(
    ("statement", "path", "names"),
    [
        ("import a.b as c, d", "p/q.py", [("a.b", None), ("d", None)]),
        ("from a.b import c, d", "p/q.py", [("a.b", "c"), ("a.b", "d")]),
        ("from . import c", "p/q.py", [("p", "c")]),
        ("from .d import *", "p/r/q.py", [("p.r.d", "*")]),
        ("from ..d import c", "p/r/q.py", [("p.d", "c")]),
        ("from . import c", "p/r/__init__.py", [("p.r", "c")]),
        ("from .. import c", "p/q.py", []),
        ("from . import c", "q.py", []),
    ],
)
def test_imports_are_resolved_by_path(statement, path, names):
    assert imported(ast.parse(statement).body[0], path) == names


def test_modules_with_two_names_are_not_asked_about():
    files = {"repo/src/pkg/a.py": "from . import b\nfrom .b import c\n", "repo/src/pkg/d.py": "import pkg.b\nimport pkg\nimport json\n"}
    assert [case.target["module"] for case in cases("T20", files)] == ["json"]


def test_deep_expressions_are_indexed():
    index("a.py", ast.parse("x = " + " + ".join(["f(1)"] * 1_500)))


def test_a_question_may_be_limited_to_a_folder():
    files = {f"p/{folder}/{n}.py": "class A: pass\n" * (n + 1) for folder in "ab" for n in range(4)} | {"p/c.py": "class A: pass\n" * 9}
    view = View({path: index(path, ast.parse(text)) for path, text in files.items()})
    assert view.folders() == ["p/a/", "p/b/"]
    (case,) = cases("T26", files, "p/a/")
    assert case.answer == "p/a/3.py" and "`p/a/`" in BY_ID["T26"].question(case, 0)


def test_every_template_asks_in_several_ways_and_says_how_to_answer():
    assert [template.id for template in TEMPLATES] == [f"T{n:02}" for n in range(1, 29)]
    assert 0.15 < len(HELD_OUT) / len(TEMPLATES) < 0.25 and HELD_OUT < set(BY_ID)
    for template in TEMPLATES:
        case = cases(template.id)[0]
        questions = [template.question(case, n) for n in range(len(template.phrasings))]
        assert len(set(questions)) == len(questions) >= 2
        for question in questions:
            assert "===== file: PATH =====" in question and "  " not in question and "Answer with" in question
            assert "{" not in question.replace("`{", "") and all(v in question for k, v in case.target.items() if k != "folder")


def test_easy_answers_are_picked_on_demand_only():
    easy, hard = Case({"n": "a"}, 1), Case({"n": "b"}, 7)
    assert {pick([easy, hard], random.Random(n), never, True).answer for n in range(20)} == {1, 7}
    assert {pick([easy, hard], random.Random(n), never, False).answer for n in range(20)} == {7}
    assert pick([easy], random.Random(1), never, False) is None is pick([hard], random.Random(1), lambda case: True, True)
    for case in (Case({}, []), Case({}, ["x"] * 21), Case({}, "y" * 401), Case({"name": "\ufb01"}, 5)):
        assert pick([case], random.Random(1), never, True) is None


def test_common_answers_are_no_more_likely_than_rare_ones():
    cases_ = [Case({"n": str(n)}, 2) for n in range(99)] + [Case({"n": "a"}, 57)]
    rare = sum(pick(cases_, random.Random(n), never, False).answer == 57 for n in range(1_000))
    assert 400 < rare < 600


def test_the_check_sees_a_wrong_answer():
    context = CONTEXT.replace("def pack(x):", "def pack(x, y):").replace("LIMIT = 0x1F", "LIMIT = 0x2F")
    for id_, target, before, after in [
        ("T09", {"file": "shop/tools.py", "function": "pack"}, "1", "2"),
        ("T07", {"file": "shop/core.py", "name": "LIMIT"}, "31", "47"),
    ]:
        found = [code_check.recompute({"template": id_, "target": target}, text) for text in (CONTEXT, context)]
        assert found == [before, after]
    assert code_check.recompute({"template": "T99", "target": {}}, CONTEXT) is None
