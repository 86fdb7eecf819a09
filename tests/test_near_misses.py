"""Ten thousand answers that are nearly right, of which none may pass, and two thousand right ones that must not be called wrong."""

import datetime
import json
import random
from collections import Counter
from dataclasses import dataclass

from rlmlib.answer_types import AnswerType
from rlmlib.scoring.static import check

NEAR_MISSES, VARIANTS = 10_000, 2_000
MOST_CALLED_WRONG = 0.01
LEAST_CALLED_RIGHT = 0.9

PEOPLE = ["Ada Byron", "Emmy Noether", "Alan Turing", "Grace Hopper", "Niels Bohr", "Lise Meitner", "Kurt Gödel", "Chien-Shiung Wu"]
CITIES = ["Lisbon", "Oslo", "Vienna", "Prague", "Dublin", "Lima", "Nairobi", "Hanoi", "Riga", "Bern"]
LABELS = ["spam", "ham", "entity", "location", "human being", "numeric value", "abbreviation", "card arrival", "lost card"]
COMPARISONS = ["more common than", "less common than", "same frequency as"]
NAMES = ["build_index", "_load", "parse_args", "Index.build", "readLine", "to_json2", "Node", "visit_Name", "x1"]
CLASSES = ["Cat", "Dog", "Fox", "Owl", "Newt", "BaseNode", "Visitor_", "IOError"]
FOLDERS = ["app", "core", "utils", "tests/unit", "app/web"]
FILES = ["cli", "index", "_compat", "io2", "views"]
LITERALS = ["None", "True", "False", "0", "1", "-1", "60", "2.5", "'r'", "'utf-8'", "b'x'", "(1, 2)", "[1, 2]", "{'a': 1}", "''", "'None'"]
CODE = ["dict[str, int]", "list[Node]", "Callable[[int], str]", "tuple[int, ...]", "bool", "Iterator[bytes]", "set[tuple[str, int]]"]
UNITS = [("years", "months"), ("km", "miles"), ("kg", "g"), ("%", "km"), ("metres", "feet"), ("hours", "minutes"), ("goals", "matches")]
LONG = "The documents describe several things at great length and among all of them there is also {} which is mentioned on one page."


@dataclass(frozen=True)
class Made:
    """A question with what is nearly its answer, what is its answer in other words, and a wrong answer of the same kind."""

    answer_type: AnswerType
    question: str
    gold: str
    wrong: list[str]
    right: list[str]
    other: str


def numbers(rng: random.Random) -> Made:
    value, (unit, unlike) = rng.randint(2, 10 ** rng.randint(1, 8)), rng.choice(UNITS)
    text = str(value)
    at = rng.randrange(len(text))
    changed = text[:at] + rng.choice([d for d in "123456789" if d != text[at]]) + text[at + 1 :]
    gold = rng.choice([text, f"{value:,}", f"{value} {unit}"])
    wrong = [changed, str(value + 1), str(value - 1), f"-{value}", f"{value}0", f"{value}.5", f"1{value}", f"{value} {unlike}", f"{value}+"]
    wrong += [f"{value + 1} {unit}", f"about {value}", f"more than {value}", f"{value} or {value + 1}", f"{value}-{value + 2}", f"{value}?"]
    wrong += [f"{value}²", f"{value}/2", f"{value} million", f"page {value}", f"{value} out of {value + 5}", f"{value},5", "True", "Oslo"]
    right = [
        text,
        f"{value:,}",
        f"{value:_}",
        f"{value:,}".replace(",", " "),
        f"{value:,}".replace(",", "\u202f"),
        f"{value}.0",
        f"{value} {unit}",
    ]
    return Made(
        "number", f"How many {unit} are there in total?", gold, wrong, [*right, f"There are {value} {unit} in total."], str(value + 3)
    )


def dates(rng: random.Random) -> Made:
    day = datetime.date(rng.randint(1850, 2030), rng.randint(1, 12), rng.randint(1, 28))
    gold = rng.choice([f"{day:%B} {day.day}, {day.year}", f"{day.day} {day:%B} {day.year}", day.isoformat()])
    step = datetime.timedelta(days=rng.choice([-365, -30, -1, 1, 7, 31]))
    near = day + step
    wrong = [near.isoformat(), f"{near:%B} {near.day}, {near.year}", f"{day:%B} {day.year}", str(day.year), f"{day:%B} {day.day}"]
    wrong += [f"before {gold}", f"about {gold}", f"{day:%B} {day.day}, {day.year + 1}", f"{day.day}-{day.day + 1} {day:%B} {day.year}"]
    wrong += [f"{day:%d/%m/%y}", f"{gold} BC", f"{gold} to {near.isoformat()}", f"{day:%Y%m%d}", "1.5", "Oslo"]
    if day.day <= 12 and day.day != day.month:
        wrong += [f"{day:%d/%m/%Y}", f"{day:%m/%d/%Y}"]
    right = [
        day.isoformat(),
        f"{day:%b}. {day.day}, {day.year}",
        f"{day.day} {day:%b} {day.year}",
        f"On {day:%A}, {day:%B} {day.day}, {day.year}.",
    ]
    return Made("date", "On what date was it?", gold, wrong, [*right, f"{day:%B} {day.day} {day.year}".upper()], near.isoformat())


def labels(rng: random.Random) -> Made:
    if rng.random() < 0.3:
        first, second = rng.sample(LABELS, 2)
        gold, other = rng.sample(COMPARISONS, 2)
        form = f"Answer in the form 'Answer: {first} is [X] {second}'."
        question = f"Is label '{first}' more common, less common, or the same frequency as label '{second}'? {form}"
        wrong = [
            other,
            f"{first} is {other} {second}",
            f"{second} is {gold} {first}",
            f"{first} is not {gold} {second}",
            f"{gold} or {other}",
        ]
        right = [f"{first} is {gold} {second}", f"{first} is the {gold} {second}".upper(), gold, gold.rpartition(" ")[0]]
        return Made("label", question, gold, wrong, right, other)
    gold, other = rng.sample([*LABELS, "00412", "64959", "1712"], 2)
    question = f"Which label is the most common? The labels: {', '.join(map(repr, LABELS))}."
    wrong = [
        other,
        f"{gold}s",
        f"not {gold}",
        f"{gold}, {other}",
        f"{gold} {other}",
        f"the least common label is {gold}",
        f"0{gold}",
        gold[1:],
    ]
    right = [gold.upper(), f"Label: {gold}", f"The most common label is {gold}.", gold.replace(" ", "_"), f"'{gold}'"]
    return Made("label", question, gold, wrong, right, other)


def identifiers(rng: random.Random) -> Made:
    gold, other = rng.sample(NAMES, 2)
    wrong = [other, gold.swapcase(), f"{gold}_", f"_{gold}", f"{gold}2", gold[:-1], f"Other.{gold}", f"{gold}, {other}", f"{gold} {other}"]
    wrong += [f"{gold}.{other}", gold.replace("_", "-") + "-", f"{gold}?", f"a function like {gold}", f"{gold}(x).y"]
    right = [f"`{gold}`", f"{gold}()", f"`{gold}()`.", f"The function is `{gold}`.", f"It is {gold}", f"pkg.mod.{gold}", f"'{gold}'"]
    return Made("identifier", "Which function has the most parameters?", gold, wrong, right, other)


def paths(rng: random.Random) -> Made:
    folder, sibling = rng.sample(FOLDERS, 2)
    file, namesake = rng.sample(FILES, 2)
    gold, other = f"{folder}/{file}.py", f"{folder}/{namesake}.py"
    wrong = [
        other,
        f"{sibling}/{file}.py",
        f"{file}.py",
        f"my{gold}",
        f"src/{gold}",
        f"{gold}i",
        gold.upper(),
        gold[:-3],
        gold.replace("/", "."),
    ]
    wrong += [f"{gold} and {other}", f"{folder}/{file}_.py", f"{folder}/{file}/__init__.py", f"near {gold}", f"../{gold}"]
    right = [f"./{gold}", gold.replace("/", "\\"), f"{gold}:12", f"`{gold}`", f"The file is {gold}.", f"{gold}#L3-L9", f'"{gold}"']
    return Made("path", "Which file defines the function?", gold, wrong, right, other)


def lines(rng: random.Random) -> Made:
    gold = sorted(rng.sample(range(1, 400), rng.randint(2, 6)))
    left_out = rng.choice(gold)
    missing = [line for line in gold if line != left_out]
    wrong = [missing, [*gold, 401], [line - 1 for line in gold], [line + 1 for line in gold], [*gold[:-1], gold[-1] + 1], []]
    texts = [", ".join(map(str, w)) or "none" for w in wrong] + [f"{gold[0]}-{gold[-1]}", f"{', '.join(map(str, gold))} and more"]
    shuffled = rng.sample(gold, len(gold))
    said = ", ".join(map(str, shuffled[:-1]))
    right = [
        str(shuffled),
        f"{said} and {shuffled[-1]}",
        "\n".join(f"- {n}" for n in gold),
        ", ".join(f"L{n}" for n in gold),
        f"Lines: {said}, {shuffled[-1]}",
    ]
    return Made("lines", "On which lines is the name bound?", str(gold), texts, right, str(missing))


def literals(rng: random.Random) -> Made:
    gold, other = rng.sample(LITERALS, 2)
    unlike = {
        "True": "1",
        "False": "0",
        "0": "False",
        "1": "True",
        "60": "60.0",
        "2.5": "2.50001",
        "'r'": "b'r'",
        "b'x'": "'x'",
        "None": "'None'",
    }
    unlike |= {
        "(1, 2)": "[1, 2]",
        "[1, 2]": "[2, 1]",
        "{'a': 1}": "{'a': True}",
        "''": "' '",
        "'None'": "None",
        "-1": "1",
        "'utf-8'": "'UTF-8'",
    }
    wrong = [other, unlike[gold], f"[{gold}]", f"{gold} or {other}", f"{gold}, {other}", f"{gold}?", f"{gold} seconds", f"x={gold}"]
    right = [f"`{gold}`", f"**{gold}**", f" {gold} ", f"The default is `{gold}`.", f"```python\n{gold}\n```"]
    return Made("literal", "What is the default value of the parameter?", gold, wrong, right, other)


def code(rng: random.Random) -> Made:
    gold, other = rng.sample(CODE, 2)
    wrong = [
        other,
        f"Optional[{gold}]",
        f"{gold} | None",
        gold.replace("int", "float") + "2",
        f"list[{gold}]",
        gold.swapcase(),
        f"{gold}[0]",
    ]
    right = [gold.replace(" ", ""), f"`{gold}`", f"-> {gold}", gold.replace(", ", " ,  "), f"'{gold}'"]
    return Made("code", "What is the return annotation?", gold, [w for w in wrong if w != gold], right, other)


def sets(rng: random.Random) -> Made:
    items = rng.sample(CLASSES, rng.randint(3, 5))
    gold, more = items[1:], items[0]
    wrong = [gold[1:], [*gold, more], [*gold[1:], more], [item.lower() for item in gold], [f"{gold[0]}2", *gold[1:]]]
    texts = [", ".join(w) for w in wrong] + [json.dumps(w) for w in wrong]
    texts += [
        " or ".join(gold),
        f"{', '.join(gold)}, maybe {more}",
        f"all but {', '.join(gold)}",
        f"{' '.join(gold)}",
        f"{', '.join(gold)}, etc.",
    ]
    mixed = rng.sample(gold, len(gold))
    said = ", ".join(mixed)
    right = [
        said,
        json.dumps(mixed),
        str(mixed),
        "\n".join(f"* {i}" for i in mixed),
        f"{said}, {mixed[0]}",
        f"The classes are {said}.",
        f"[{said}]",
    ]
    return Made("set", "Which classes inherit from the base?", json.dumps(gold), texts, right, json.dumps(wrong[1]))


def ordered(rng: random.Random) -> Made:
    items = rng.sample(LABELS[:6], 4)
    gold, more = items[1:], items[0]
    wrong = [[gold[1], gold[0], gold[2]], gold[::-1], gold[1:], [*gold, more], [*gold[:2], more], [*gold, gold[0]]]
    texts = [", ".join(w) for w in wrong] + ["\n".join(f"{n}. {i}" for n, i in enumerate(w, 1)) for w in wrong]
    right = [", ".join(gold), json.dumps(gold), str(gold), "\n".join(f"{n}. {i}" for n, i in enumerate(gold, 1)), ", ".join(gold).upper()]
    return Made("list", "List the three most frequent labels in order.", json.dumps(gold), texts, right, json.dumps(wrong[0]))


def pairs(rng: random.Random) -> Made:
    gold = [sorted(rng.sample(range(100, 200), 2)) for _ in range(rng.randint(2, 5))]
    extra = [rng.randint(200, 300), rng.randint(301, 400)]
    wrong = [gold[1:], [*gold, extra], [*gold[1:], extra], [*gold, [gold[0][0]] * 2], [[gold[0][0] + 500, gold[0][1]], *gold[1:]], []]
    texts = ["\n".join(f"({a}, {b})" for a, b in w) or "none" for w in wrong if sorted(w) != sorted(gold)]
    texts += [f"not {gold}", " or ".join(f"({a}, {b})" for a, b in gold)]
    mixed = [rng.sample(pair, 2) for pair in rng.sample(gold, len(gold))]
    right = [
        "\n".join(f"({a}, {b})" for a, b in mixed),
        json.dumps(mixed),
        "\n".join(f"{a}, {b}" for a, b in mixed),
        f"{mixed} and {mixed[0]}",
    ]
    made = [text for text, w in zip(texts, wrong, strict=False) if {tuple(p) for p in w} != {tuple(p) for p in gold}] + texts[-2:]
    return Made("pairs", "List all pairs of user IDs.", json.dumps(gold), made, right, json.dumps([*gold, extra]))


def choices(rng: random.Random) -> Made:
    options = dict(zip("ABCD", rng.sample(["It rains", "Grass grows", "Snow falls", "Wind blows", "A storm comes"], 4), strict=True))
    question = "Which is right? " + " ".join(f"({letter}) {text}." for letter, text in options.items())
    gold, other = rng.sample("ABCD", 2)
    wrong = [
        other,
        f"({other})",
        options[other],
        f"{gold} or {other}",
        f"not {gold}",
        f"({gold}) {options[other]}",
        f"{gold}{other}",
        f"{gold} closer look",
    ]
    wrong += [
        f"({gold}) and ({other})",
        f"The answer is not ({gold}).",
        f"The correct answer is ({gold}). Wait, the correct answer is ({other}).",
    ]
    right = [
        gold,
        f"({gold})",
        f"{gold.lower()})",
        options[gold],
        f"The correct answer is ({gold}).",
        f"{gold}. {options[gold]}",
        f"Option {gold}",
    ]
    return Made("choice", question, gold, wrong, right, other)


def texts(rng: random.Random) -> Made:
    people = rng.random() < 0.5
    gold, other = rng.sample(PEOPLE if people else CITIES, 2)
    question = "Who was the author?" if people else "Which city was the capital?"
    wrong = [
        other,
        gold[:-1],
        f"{gold}a",
        f"{gold}, {other}",
        f"{gold} or {other}",
        f"{gold}/{other}",
        f"{gold} {other}",
        f"New {gold}",
        f"{gold} II",
    ]
    wrong += [
        f"{gold} University",
        f"probably {gold}",
        f"{gold}?",
        f"anyone but {gold}",
        f"son of {gold}",
        f"{other}, not {gold}",
        f"{gold}'s rival",
    ]
    if people:
        wrong += [gold.split()[0], gold.split()[1], gold.replace(" ", " X. ")]
    right = [
        gold.upper(),
        gold.lower(),
        f"It was {gold}.",
        f"“{gold}”",
        f"{gold} was the {'author' if people else 'capital'}.",
        f"*{gold}*",
        f"{gold}!",
    ]
    return Made("text", question, gold, wrong, right, other)


MAKERS = [numbers, dates, labels, identifiers, paths, lines, literals, code, sets, ordered, pairs, choices, texts]
DOUBTS = [
    "not {gold}",
    "It is definitely not {gold}.",
    "{gold} or {other}",
    "either {gold} or {other}",
    "{gold}, or maybe {other}",
    "I think it might be {gold}",
    "{other}, not {gold}",
    "Answer: {gold}\nAnswer: {other}",
    "Answer: {gold}\nNo, wait: {other}",
    "Answer: anything but {gold}",
    "The answer is not {gold}.",
    LONG.format("{gold}"),
    "Some say {gold} and others say {other}.",
    '{{"answer": "{gold}", "second": "{other}"}}',
]
MARKS = [
    "{}",
    "{}",
    "Answer: {}",
    "**{}**",
    "\\boxed{{{}}}",
    "First I looked at the data.\nFinal answer: {}",
    "<answer>{}</answer>",
    "The answer is {}",
]


def examples(count: int, right: bool):
    """(what was made, the answer), the kinds in turn, always the same ones."""
    rng = random.Random(f"verifier/{right}")
    for number in range(count):
        made = MAKERS[number % len(MAKERS)](rng)
        if not right and rng.random() < 0.3:
            yield made, rng.choice(DOUBTS).format(gold=made.gold, other=made.other)
        else:
            yield made, rng.choice(MARKS).format(rng.choice(made.right if right else made.wrong))


def test_no_near_miss_is_accepted():
    accepted = [
        (made.answer_type, made.gold, answer)
        for made, answer in examples(NEAR_MISSES, right=False)
        if check(answer, [made.gold], made.answer_type, made.question) == "correct"
    ]
    assert accepted == []


def test_right_answers_in_other_words_are_not_called_wrong():
    verdicts = [(check(answer, [m.gold], m.answer_type, m.question), m, answer) for m, answer in examples(VARIANTS, right=True)]
    counts = Counter(verdict for verdict, _, _ in verdicts)
    wrong = [(made.answer_type, made.gold, answer) for verdict, made, answer in verdicts if verdict == "incorrect"]
    assert len(wrong) <= MOST_CALLED_WRONG * VARIANTS, wrong
    assert counts["correct"] >= LEAST_CALLED_RIGHT * VARIANTS


def test_the_examples_are_the_same_each_time():
    assert [answer for _, answer in examples(200, right=False)] == [answer for _, answer in examples(200, right=False)]
    kinds = Counter(made.answer_type for made, _ in examples(NEAR_MISSES, right=False))
    assert len(kinds) == len(MAKERS) and min(kinds.values()) > 700
