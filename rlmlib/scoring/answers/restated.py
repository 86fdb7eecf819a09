"""Whether the words around an answer say again what the question asks, and nothing else.

They may be a frame: "It was", "There are ... in total". They may be the noun asked for: "12 records", "The magic number is". Or they
are the words of the question behind its asking word, none left out, in the order of a statement: "It opened in 1831", "user 7 posted
the most records". Of these the noun asked for may be missing, and a last phrase that qualifies nothing before it.
"""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .text import fold, folded, words

QUESTION_CHARS = 4_000  # of a question that are read, at its beginning and at its end

COPULAS = frozenset("is was are were be been equals".split())
ARTICLES = frozenset("the a an".split())
PREPOSITIONS = frozenset("in on at of by to for with from as into among within during".split())
PRONOUNS = frozenset("it its this that these those they he she his her their".split())
FRAME_NOUNS = frozenset("total answer result name year number count value path paths".split())
FRAME = COPULAS | ARTICLES | FRAME_NOUNS | frozenset("there final correct so therefore thus hence exactly different distinct".split())
ASKING = frozenset("who whom whose what which when where why how".split())
LOADED = frozenset(  # words that change what is said when they are dropped, or stand beside an answer
    "or nor not no none never neither either both all any only except without excluding unless ago but and if before after until since "
    "between than more less fewer least most about around over under above below nearly almost half twice double other another instead "
    "rather against minus would could might may maybe vs versus per times older younger earlier later out left".split()
)
_OF_THE_ANSWER = frozenset("wrong incorrect false untrue mistaken".split())  # said of an answer they deny it
_ORDERS = frozenset("list find give name count identify".split())
_DO = frozenset("do does did".split())
_HAVE = frozenset("have has had".split())
_KINDS = frozenset("user label category date month day file function method class module parameter variable".split())
_PLACES = frozenset("in on at".split())
_NAMING = frozenset("called named known as".split())
FUNCTION_WORDS = PREPOSITIONS | PRONOUNS | _DO | _HAVE
_BEHIND_NOUN = COPULAS | PREPOSITIONS | _DO | _HAVE | frozenset(["that", "without", "than"])
_STOPS = FUNCTION_WORDS | frozenset(["without", "than", "and", "or"])
_SENTENCE_END = re.compile(r"[.?!](?=\s|$)|\n")


@dataclass(frozen=True)
class Asked:
    """One clause of a question, from behind its asking word on, frame words left out.

    noun: the first words up to a function word: the noun asked for if is_noun, else it and what follows. rest: the others.
    object_of: whether the answer is no subject ("did they score"), so that a statement has its verb before the answer.
    may_end: how many of the last words a statement can do without, at a preposition. before: the word before the asking word.
    of_copula: whether it asks what is something ("which city was"). has_copula: whether there is one at all.
    """

    asking: str
    noun: tuple[str, ...]
    is_noun: bool
    rest: tuple[str, ...]
    object_of: bool
    may_end: int
    before: str
    of_copula: bool
    has_copula: bool


@dataclass(frozen=True)
class Around:
    """The words before and behind an answer, frame words left out.

    lead_joined, tail_joined: whether nothing, a copula or (before it) a colon stands between them and the answer. passive: whether
    they hold a copula that does not stand there right before it, as in "It was founded in".
    """

    lead: list[str]
    tail: list[str]
    lead_joined: bool
    tail_joined: bool
    passive: bool


def shortened(question: str) -> str:
    if len(question) <= 2 * QUESTION_CHARS:
        return question
    return f"{question[:QUESTION_CHARS]}\n{question[-QUESTION_CHARS:]}"


@functools.lru_cache(maxsize=1024)
def clauses(question: str) -> tuple[tuple[str, ...], ...]:
    return tuple(said for part in _SENTENCE_END.split(shortened(question)) if (said := tuple(words(part))))


@functools.lru_cache(maxsize=1024)
def words_of(question: str) -> frozenset[str]:
    return frozenset(word for clause in clauses(question) for word in clause)


@functools.lru_cache(maxsize=1024)
def asked(question: str, gold: str = "") -> tuple[Asked, ...]:
    """What each clause asks for, those aside that name the gold answer: they may name the wrong ones too."""
    sought, found = folded(gold), []
    for clause in clauses(question):
        said = [fold(word) for word in clause]
        start = next((at for at, word in enumerate(said) if word in ASKING or (at == 0 and word in _ORDERS)), None)
        if start is not None and said[start] != "whose" and not (sought and part_of(sought, said)):
            found.append(_asked(said[start], said[start - 1] if start else "", said[start + 1 :]))
    return tuple(found)


def _asked(asking: str, before: str, behind: list[str]) -> Asked:
    if asking == "how" and behind[:1] in (["many"], ["much"]):
        asking, behind = "how many", behind[1:]
    behind = _without_total(behind[1:] if behind[:1] == ["of"] else behind)
    first = next((at for at in range(len(behind)) if not _is_frame(behind, at)), len(behind))
    end = next((at for at in range(first, len(behind)) if _is_frame(behind, at) or behind[at] in _STOPS), len(behind))
    if asking in ("which", "what") and behind[:1] and behind[0] in _KINDS:
        end = 1
    follows, subject = [*behind[end : end + 2], "", ""][:2]
    is_last = end == len(behind) and (end - first == 1 or bool(COPULAS & set(behind[:first])))
    rest = content([word for word in behind[end:] if word not in _DO])
    loaded = [at for at, word in enumerate(rest, 1) if word in LOADED]
    return Asked(
        asking=asking,
        noun=tuple(behind[first:end]),
        is_noun=end > first and (end == 1 and behind[0] in _KINDS or is_last or follows in _BEHIND_NOUN),
        rest=tuple(rest),
        object_of=follows in _DO or asking in ("when", "where", "how") or before in PREPOSITIONS,
        may_end=0 if follows in _DO and subject not in PRONOUNS else len(rest) - max(loaded, default=0),
        before=before,
        of_copula=follows in COPULAS or bool(COPULAS & set(behind[:first])),
        has_copula=bool(COPULAS & set(behind)),
    )


def part_of(part: Sequence[str], sequence: Sequence[str]) -> bool:
    return any(sequence[at : at + len(part)] == part for at in range(len(sequence) - len(part) + 1))


def _is_frame(said: Sequence[str], at: int) -> bool:
    return said[at] in FRAME or (said[at] == "of" and at > 0 and said[at - 1] in FRAME_NOUNS)


def content(said: Sequence[str]) -> list[str]:
    """Folded words without those of a frame."""
    return [word for at, word in enumerate(said) if not _is_frame(said, at)]


def restates(
    before: Sequence[str], after: Sequence[str], question: str, gold: str = "", *, name: bool = False, colon: bool = False
) -> bool:
    """Whether the words before and after an answer only restate the question.

    name: a word right behind the answer may make another name of it ("Oklahoma city"). colon: one stands before the answer.
    """
    questions = asked(question, gold)
    around = _around([fold(w) for w in before], [fold(w) for w in after], {each.before for each in questions}, colon)
    if around is None or not _capitals_are_asked(before, after, question):
        return False
    plain = replace(around, lead=around.lead[1:]) if around.lead_joined and around.lead[:1] and around.lead[0] in PRONOUNS else around
    if not plain.lead and not plain.tail:
        return not name or (around.lead_joined and around.tail_joined)
    return any(_is_noun(plain, each, name) or _is_clause(around, each, name) or _is_clause(plain, each, name) for each in questions)


def _around(first: list[str], said: list[str], before_asking: set[str], colon: bool) -> Around | None:
    """None where the words judge the answer or break off behind it."""
    said = _without_total(said)
    while first and _leads_on(first, before_asking):
        first = first[:-1]
    while first and first[-1] in _NAMING and COPULAS & set(first):
        first = first[:-1]
    if _OF_THE_ANSWER & {*first, *said} or said[-1:] and said[-1] in ARTICLES | PREPOSITIONS:
        return None
    return Around(
        lead=content(first),
        tail=content(said),
        lead_joined=colon or not first or first[-1] in COPULAS,
        tail_joined=not said or said[0] in COPULAS,
        passive=bool(COPULAS & {*first[:-1], *said}),
    )


def _leads_on(first: list[str], before_asking: set[str]) -> bool:
    """Whether the last word leads to an answer: an article, "in", "a total of", the preposition of "by how much"."""
    word = first[-1]
    return word in ARTICLES or word in _PLACES or (word in PREPOSITIONS and (word in before_asking or _is_frame(first, len(first) - 1)))


def _without_total(said: list[str]) -> list[str]:
    return said[:-2] if said[-2:] in (["in", "total"], ["in", "all"]) else said


def _capitals_are_asked(before: Sequence[str], after: Sequence[str], question: str) -> bool:
    """Whether words in capitals, the first of the sentence aside, stand so in the question: else they may be part of a name."""
    known = words_of(question)
    return all(word.islower() or word in known for word in [*before[1:], *after])


def _is_noun(around: Around, question: Asked, name: bool) -> bool:
    """The noun asked for, before a copula ("The magic number is 12") or behind the answer ("12 records", "Paris is the capital")."""
    lead, tail, noun = around.lead, around.tail, question.noun
    if (lead and tail) or (lead and not around.lead_joined) or (tail and name and not around.tail_joined):
        return False
    said = lead + tail
    if not question.is_noun:
        return _same(said, noun[:1])
    return _same(said, noun[: len(said)]) or (_same(said, noun[-len(said) :]) and not LOADED & set(noun[: -len(said)]))


def _is_clause(around: Around, question: Asked, name: bool) -> bool:
    """The whole clause, with the answer where a statement has it."""
    lead, tail, noun = around.lead, around.tail, list(question.noun)
    if around.passive and not question.has_copula:
        return False
    if not around.lead_joined and (not question.object_of or LOADED & set(lead) or (question.of_copula and not around.passive)):
        return False
    if not around.tail_joined and ((question.object_of and (name or not lead)) or (name and question.of_copula)):
        return False
    said, rest = lead + tail, list(question.rest)
    if _states(said, noun + rest, question.may_end):
        return True
    if noun and (not question.is_noun or LOADED & set(noun)):
        return False
    without = [said[:at] + said[at + len(noun) :] for at in range(len(said)) if _same(said[at : at + len(noun)], noun)]
    return any(_states(words_left, rest, question.may_end) for words_left in [said, *without])


def _states(said: list[str], clause: list[str], may_end: int) -> bool:
    """Equal, the clause as a whole or up to one of its last phrases."""
    ends = [at for at in range(max(1, len(clause) - may_end), len(clause)) if _begins_phrase(clause, at)]
    parts = [clause[:end] for end in [len(clause), *ends]]
    return any(_same(said, part) or _same(said, [word for word in part if word not in _HAVE]) for part in parts)


def _begins_phrase(clause: Sequence[str], at: int) -> bool:
    """At "for rusty-teapot", and at "mentioned in the text"."""
    if clause[at].endswith("ed"):
        at += 1
    return at < len(clause) and clause[at] in PREPOSITIONS and clause[at] != "as"


def _same(said: Sequence[str], sought: Sequence[str]) -> bool:
    return len(said) == len(sought) > 0 and all(map(_is_form, said, sought))


def _is_form(said: str, asked_word: str) -> bool:
    """One word, or a form of it: "goal" and "goals", "had" for "have", and for "open" in the question "opened"."""
    return plural(said, asked_word) or said in (f"{asked_word}ed", f"{asked_word}d") or {said, asked_word} <= _HAVE


def plural(one: str, other: str) -> bool:
    """Whether two words differ by no more than the ending of a plural."""
    shorter, longer = sorted((one, other), key=len)
    return one == other or (len(shorter) > 2 and longer in (f"{shorter}s", f"{shorter}es"))


def agrees(said: Sequence[str], question: str) -> bool:
    """Whether the words behind a yes or no repeat the first clause of the question from its subject on, or from behind a pronoun."""
    if not _capitals_are_asked(["", *said], [], question):
        return False
    spoken = [word for word in content([fold(word) for word in said]) if word not in _DO]
    clause = next(([word for word in content([fold(word) for word in clause]) if word not in _DO] for clause in clauses(question)), [])
    if not spoken or _same(spoken, clause[: len(spoken)]):
        return True
    if spoken[0] not in PRONOUNS:
        return False
    left, starts = spoken[1:], range(1, len(clause))
    return not left or any(_same(left, clause[at : at + len(left)]) and clause[at - 1] not in LOADED for at in starts)
