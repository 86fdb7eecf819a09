"""Aggregation: questions on the statistics of many dated records, labels shown or hidden.

After the study's family. With the label shown code alone can answer; hidden, somebody
must read the text of the records that matter.
"""

import random
from collections import Counter

from ..lexicon import TOPIC_NOUNS
from . import names
from .base import Example, Phrasings, Split, log_uniform

_ENDS = {
    "sport": "won the cup|missed the penalty|trained all night|broke the record".split("|"),
    "food": "needs more salt|smells of thyme|is served warm|burned in the oven".split("|"),
    "weather": "covered the valley|will last until noon|came from the sea|surprised us all".split("|"),
    "music": "was out of tune|opened the evening|played the encore|moved the hall".split("|"),
    "travel": "was delayed again|got lost at the border|is booked for May|left without us".split("|"),
    "money": "is due on Friday|rose by a tenth|was paid twice|cannot be refunded".split("|"),
}

QUESTIONS = {
    "shown_count": Phrasings(
        (
            "how many records have the label {l}",
            "the number of records with the label {l}",
            "on how many records the label {l} is",
            "how many of all records have the label {l}",
            "the count of records with the label {l}",
        )
    ),
    "shown_most": Phrasings(
        (
            "which label is the most frequent",
            "the most common label",
            "which label most records have",
            "the most frequent label",
            "which label is on most records",
            "the label that most records have",
        )
    ),
    "shown_user": Phrasings(
        (
            "how many records of {u} have the label {l}",
            "the number of records of {u} with the label {l}",
            "how many of the records of {u} have the label {l}",
            "on how many records of {u} the label {l} is",
            "the count of records of {u} with the label {l}",
        )
    ),
    "hidden_user": Phrasings(
        (
            "how many records of {u} are about {l}",
            "the number of records of {u} about {l}",
            "how many of the records of {u} are about {l}",
            "how many records about {l} are by {u}",
            "the count of records of {u} about {l}",
            "the number of records about {l} by {u}",
        )
    ),
    "hidden_topic": Phrasings(
        (
            "what topic {u} writes about most",
            "which topic is the most frequent for {u}",
            "the most frequent topic of {u}",
            "the topic that is most common for {u}",
            "which topic {u} writes about most",
            "the most common topic of {u}",
        )
    ),
}


def _text(rng: random.Random, topic: str) -> str:
    return f"the {rng.choice(TOPIC_NOUNS[topic])} {rng.choice(_ENDS[topic])}"


def make(rng: random.Random, split: Split, chars: tuple[int, int], hidden_share: float) -> Example:
    """One question with its records, one a line. The answer is never tied and never 0."""
    hidden = rng.random() < hidden_share
    while True:
        records, used = [], set()
        target, size = log_uniform(rng, *chars), 0
        users = [names.person(rng, split == "heldout", used) for _ in range(min(1200, max(6, target // 500)))]
        weights = [rng.uniform(1, 3) for _ in TOPIC_NOUNS]
        while size < target:
            topic = rng.choices(list(TOPIC_NOUNS), weights)[0]
            date = f"20{rng.randint(18, 25)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"
            user = rng.choice(users)
            line = f"{date} | {user} | {_text(rng, topic)}" + ("" if hidden else f" | {topic}")
            records.append((line, user, topic))
            size += len(line) + 1
        question = _question(rng, split, records, hidden)
        if question:
            task, text, answer = question
            return Example("", "aggregation", task, split, text, "\n".join(line for line, _, _ in records), answer)


def _question(rng, split, records, hidden) -> tuple[str, str, str] | None:
    task = rng.choice(("hidden_user", "hidden_topic") if hidden else ("shown_count", "shown_most", "shown_user"))
    user = rng.choice(records)[1]
    counts = Counter(topic for _, who, topic in records if task in ("shown_count", "shown_most") or who == user)
    ranked = counts.most_common(2)
    if task in ("shown_most", "hidden_topic"):
        if len(ranked) < 2 or ranked[0][1] == ranked[1][1]:
            return None
        label, answer = "", ranked[0][0]
    else:
        label = rng.choice(sorted(counts))
        answer = str(counts[label])
    return task, QUESTIONS[task].pick(rng, split).format(u=user, l=label), answer
