"""A baseline without a root model: scripts that search and count by code, and ask the leaf for labels alone.

It shows that the harness and the scores work offline, and what plain code is worth on each benchmark.
"""

from ..config import Harness
from ..harness.trajectory import Rollout
from ..models.base import Leaf
from ..rlm import RLM
from ..scripted import ScriptedRoot, block

NEEDLE = r"""
import re

key = re.search(r"for (\S+) mentioned", question)[1]
found = re.search(re.escape(key) + r" is: (\S+?)\.\s", context)
FINAL(found[1] if found else "not found")
"""

STATISTICS = r"""
import re
from collections import Counter
from datetime import datetime

lines = re.findall(r"^Date: (.+?) \|\| User: (\d+) \|\| Instance: (.*)$", context, re.MULTILINE)
labels = re.findall(r"'([^']+)'", context.partition("\n")[0])
asked = [label for label in labels if f"'{label}'" in question]


def counts(label, lines):
    texts = [text for _, _, text in lines]
    batches = ["\n".join(texts[start : start + 100]) for start in range(0, len(texts), 100)]
    replies = llm_query_batched([f"How many of these records have the label {label}, as a number alone?\n{batch}" for batch in batches])
    return sum(int(number[0]) for number in (re.search(r"\d+", reply) for reply in replies) if number)


def of_month(name):
    return [line for line in lines if datetime.strptime(line[0], "%b %d, %Y").strftime("%B") == name]


def of_user(user):
    return [line for line in lines if line[1] == user]


user, month = re.search(r"lines of user (\d+)", question), re.search(r"lines of ([A-Z][a-z]+),", question)
chosen = of_user(user[1]) if user else of_month(month[1]) if month else lines
if re.search("which user", question, re.IGNORECASE):
    busy = [name for name, _ in Counter(line[1] for line in lines).most_common(12)]
    FINAL(f"User: {max(busy, key=lambda name: counts(asked[0], of_user(name))) if asked else busy[0]}")
elif re.search("which date", question, re.IGNORECASE):
    day = Counter(line[0] for line in lines).most_common(1)[0][0]
    FINAL(f"Date: {datetime.strptime(day, '%b %d, %Y'):%m/%d/%Y}")
elif len(asked) == 2:
    first, second = sorted(asked, key=question.index)
    found = counts(first, chosen), counts(second, chosen)
    phrase = "same frequency as" if found[0] == found[1] else "more common than" if found[0] > found[1] else "less common than"
    FINAL(f"Answer: {first} is {phrase} {second}")
elif asked:
    FINAL(f"Answer: {counts(asked[0], chosen)}")
else:
    found = {label: counts(label, chosen) for label in labels}
    best = min if re.search("least|fewest", question) else max
    FINAL(f"Label: {best(found, key=found.get)}")
"""

PAIRS = r"""
import re
from itertools import combinations

cues = {
    "abbreviation": r"stand for|abbreviat|short for|full form",
    "location": r"^(where|(in )?(what|which) (city|town|country|state|continent))",
    "numeric value": r"^(how (many|much|long|far|old|tall)|when|what year)",
    "human being": r"^who",
    "description and abstract concept": r"^(why|how|what (is|are|does|do)|define)",
}


def label(text):
    return next((label for label, cue in cues.items() if re.search(cue, text.lower())), "entity")


wanted = re.split("The labels are not shown|Each of the questions can be labelled", question)[0]
asked = [name for name in [*cues, "entity"] if name in wanted]
lines = re.findall(r"^Date: .+? \|\| User: (\d+) \|\| Instance: (.*)$", context, re.MULTILINE)
users = sorted({int(user) for user, text in lines if label(text) in asked})
FINAL("\n".join(f"({a}, {b})" for a, b in combinations(users, 2)) or "no pairs")
"""

CHOICE = r"""
import re


def words(text):
    return set(re.findall(r"\w{4,}", text.lower()))


held = words(context)
choices = [(letter, words(text)) for letter, text in re.findall(r"^\(([A-D])\) (.*)$", question, re.MULTILINE)]
FINAL(max(choices, key=lambda choice: len(choice[1] & held) / max(1, len(choice[1])))[0])
"""

NOTHING = 'FINAL("unknown")'


def script(question: str) -> str:
    """The code for a question, by its form. Pairs are guessed from who has a line of the labels named, dates and counts aside."""
    if "special magic" in question:
        code = NEEDLE
    elif "pairs of user" in question or "pair of different users" in question:
        code = PAIRS
    elif "\n(A) " in question:
        code = CHOICE
    elif any(form in question for form in ("'Label: ", "'Answer: ", "'User: ", "'Date: ")):
        code = STATISTICS
    else:
        code = NOTHING
    return f"question = {question!r}\n{code}"


class ScriptedBaseline:
    """Asks as an RLM does. Close it, or use it as a context manager."""

    def __init__(self, leaf: str | Leaf = "lexical"):
        self._root = ScriptedRoot([])
        self._rlm = RLM(self._root, leaf, Harness(prompts="full", max_turns=1, max_subcalls=2000, max_batch=2000, block_timeout_s=60.0))

    def ask(self, question: str, context) -> Rollout:
        self._root.lines = [block(script(question))]
        return self._rlm.ask(question, context)

    def close(self):
        self._rlm.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
