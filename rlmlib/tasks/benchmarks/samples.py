"""Made-up labelled texts, so that windows can be had offline. They are easy: whoever knows the words knows the label."""

from ...lexicon import TOPIC_NOUNS

_REMARKS = (
    "the {} was the talk of the village",
    "nobody had expected the {} so early",
    "my aunt still remembers that {}",
    "we waited an hour for the {}",
    "there was a photograph of the {} on the wall",
    "the {} is older than it looks",
    "she wrote two pages about the {}",
    "ask him about the {} when you see him",
    "they argued over the {} until midnight",
    "the {} will not be the same next year",
    "a picture of the {} hung in the hall",
    "in the end the {} was all that mattered",
)

_THINGS = "lantern|compass|windmill|telescope|accordion|sundial|ferryboat|loom|barometer|typewriter".split("|")
_QUESTIONS = {
    "abbreviation": (
        "What does the abbreviation {}C stand for ?",
        "What is the full form of the letters {}S ?",
        "What is {}-O short for ?",
    ),
    "description and abstract concept": (
        "Why does a {} need oil ?",
        "How does a {} work ?",
        "What is the purpose of a {} ?",
    ),
    "entity": (
        "What kind of wood is a {} made of ?",
        "What colour was the first {} ?",
        "Which animal is painted on the royal {} ?",
    ),
    "human being": (
        "Who invented the {} ?",
        "Who owned the largest {} of all ?",
        "Whose {} was sold to the museum ?",
    ),
    "location": (
        "Where was the oldest {} found ?",
        "In which town is the {} museum ?",
        "What country exports the most {}s ?",
    ),
    "numeric value": (
        "How many parts does a {} have ?",
        "How much does a {} weigh ?",
        "When was the last {} built ?",
    ),
}


def topics() -> list[tuple[str, str]]:
    """(text, label): 360 remarks with one of six topics, in words that the lexical leaf knows."""
    return [(remark.format(noun), topic) for topic, nouns in TOPIC_NOUNS.items() for noun in nouns for remark in _REMARKS]


def questions() -> list[tuple[str, str]]:
    """(text, label): 180 questions with the six labels of TREC, which the tasks of OOLONG-Pairs are about."""
    found = []
    for label, forms in _QUESTIONS.items():
        for thing in _THINGS:
            word = thing[:3].upper() if label == "abbreviation" else thing
            found += [(form.format(word), label) for form in forms]
    return found
