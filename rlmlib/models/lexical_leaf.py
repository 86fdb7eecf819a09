"""LexicalLeaf: an offline, deterministic stand-in for the leaf model. It is not a language model.

It reads by cue words: it finds the question in the first line of the prompt, the
sentences, records or definitions that the question is about in the rest, and answers
with a short span, a number, a label or NOT_FOUND.

Fairness. Whether it misreads a piece of evidence depends on that evidence alone (by
checksum), never on how much text surrounds it: an excerpt that fills the window is read
as well as a short one, it only costs more. Cost is 4 characters a token.
"""

import re
import zlib
from functools import lru_cache

from ..lexicon import OCCUPATIONS, TOPIC_NOUNS
from .base import Reply

NOT_FOUND = "NOT_FOUND"
MISREAD_PER_MILLE = 30

_TOPIC_OF = {noun: topic for topic, nouns in TOPIC_NOUNS.items() for noun in nouns}
_CUES = {
    "country": r"\bcountry\b",
    "occupation": r"\b(work|worked|profession|trade|living)\b",
    "year": r"\byear\b",
    "teacher": r"\b(teacher|taught|studied under)\b",
    "birthplace": r"\b(born|birthplace|came into the world)\b",
}
_NAME = re.compile(r"[A-Z][a-z]+(?: [A-Z][a-z]+)*")
_QUESTION_WORDS = frozenset("Where Who In What Name Which Give Tell Say State Count How The From About With By Of Find Please Let".split())


class LexicalLeaf:
    """Answers from cue words within a window of `window_tokens` tokens."""

    name = "lexical-stand-in"
    max_tokens = 64  # it answers with a short span

    def __init__(self, window_tokens: int = 2400):
        self.window_tokens = window_tokens

    def count_tokens(self, text: str) -> int:
        return len(text) // 4 + 1

    async def complete(self, prompt: str) -> Reply:
        text = read(prompt)
        return Reply(text, self.count_tokens(prompt), self.count_tokens(text))


def _misread(*evidence: str) -> bool:
    return zlib.crc32("\x00".join(evidence).encode("utf-8", "surrogatepass")) % 1000 < MISREAD_PER_MILLE


@lru_cache(maxsize=4096)
def read(prompt: str) -> str:
    """Answer a prompt of the form 'question, newline, excerpt'."""
    question, _, excerpt = prompt.partition("\n")
    quoted = re.search(r"`([^`]+)`", question)
    if quoted:
        return _read_code(question, quoted[1], excerpt)
    if re.search(r"\b(records|labels?|topics?)\b", question):
        return _read_records(question, _subject(question), excerpt)
    return _read_pages(question, excerpt)


# --- pages


def _read_pages(question: str, excerpt: str) -> str:
    subject = _subject(question)
    relations = [name for name, cue in _CUES.items() if re.search(cue, question)]
    if "year" in relations:
        relations = ["year"]  # "in what year was X born" asks for the year alone
    if subject is None or not relations:
        return NOT_FOUND
    if subject not in excerpt:
        return NOT_FOUND
    pages = excerpt.split("\n")
    for relation in reversed(relations):  # _CUES holds the outer relation of a two-hop question before the inner one
        subject = _look_up(pages, subject, relation)
        if subject is None:
            return NOT_FOUND
    return subject


def _subject(question: str) -> str | None:
    for match in _NAME.finditer(question):
        words = match[0].split()
        while words and words[0] in _QUESTION_WORDS:
            words = words[1:]
        if words:
            return " ".join(words)
    return None


def _look_up(pages: list[str], subject: str, relation: str) -> str | None:
    cue = re.compile(_CUES[relation])
    for page in pages:
        if subject not in page:
            continue
        own_page = page.startswith(subject + ".")
        for sentence in page.split(". "):
            if not cue.search(sentence) or (subject not in sentence and not (own_page and relation == "year")):
                continue
            value = _value(sentence, subject, relation)
            if value is not None:
                return NOT_FOUND if _misread(subject, relation, value) else value
    return None


def _value(sentence: str, subject: str, relation: str) -> str | None:
    if relation == "year":
        year = re.search(r"\b1[789]\d\d\b", sentence)
        return year[0] if year else None
    if relation == "occupation":
        return next((word for word in re.findall(r"[a-z]+", sentence) if word in OCCUPATIONS), None)
    # a teacher is named after the pupil: "A studied under B" says nothing of B's own teacher
    rest = sentence.partition(subject)[2] if relation == "teacher" else sentence.replace(subject, " ")
    spans = [m[0] for m in _NAME.finditer(rest) if m[0] not in _QUESTION_WORDS and m[0] != "It"]
    return spans[-1] if spans else None


# --- records


def _topic(line: str) -> str:
    """The label in the fourth field, where shown, or the topic of the text's first known word."""
    fields = line.split(" | ")
    if len(fields) >= 4:
        return fields[3]
    topic = next((_TOPIC_OF[word] for word in fields[-1].split() if word in _TOPIC_OF), "")
    if topic and _misread(line):
        topics = sorted(TOPIC_NOUNS)
        topic = topics[(topics.index(topic) + 1) % len(topics)]
    return topic


def _read_records(question: str, user: str | None, excerpt: str) -> str:
    lines = [line for line in excerpt.split("\n") if user is None or f"| {user} |" in line]
    if not lines:
        return "0" if re.search(r"\b(many|[Cc]ount|number)\b", question) else NOT_FOUND
    topics = [_topic(line) for line in lines]
    wanted = re.search(r"\b(?:label|[Aa]bout) (\w+)", question)
    if wanted and wanted[1] in TOPIC_NOUNS:
        return str(topics.count(wanted[1]))
    known = [topic for topic in topics if topic]
    return max(sorted(set(known)), key=known.count) if known else NOT_FOUND


# --- code


def _read_code(question: str, name: str, excerpt: str) -> str:
    if "file" in question:
        return _defining_file(name, excerpt)
    keyword = "def" if "parameters" in question else "class"
    start = re.search(rf"\b{keyword} {re.escape(name)}\(", excerpt)
    if not start:
        return NOT_FOUND
    inside = _parenthesised(excerpt, start.end())
    if inside is None:
        return NOT_FOUND
    parts = [part.strip() for part in _split_top_level(inside)]
    if keyword == "class":
        answer = parts[0] if parts and parts[0] else NOT_FOUND
    else:
        answer = str(len([p for p in parts if p and p not in ("*", "/")]))
    return NOT_FOUND if _misread(name, answer) else answer


def _defining_file(name: str, excerpt: str) -> str:
    found = re.search(rf"^\s*class {re.escape(name)}\b", excerpt, re.MULTILINE)
    headers = re.findall(r"^### file: (\S+)", excerpt[: found.start()], re.MULTILINE) if found else []
    return headers[-1] if headers else NOT_FOUND


def _parenthesised(text: str, start: int) -> str | None:
    depth = 1
    for index in range(start, len(text)):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return re.sub(r"#[^\n]*", "", text[start:index])
    return None


def _split_top_level(text: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for char in text:
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(char, 0)
        if char == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += char
    return [*parts, current]
