"""Words that both the task makers and the lexical leaf know, as a language model knows its language."""

OCCUPATIONS = tuple(
    "glassblower baker surgeon printer weaver astronomer carpenter botanist jeweller miller potter "
    "sculptor violinist cartographer brewer tailor librarian clockmaker shepherd engraver".split()
)

TOPIC_NOUNS = {
    "sport": "goalkeeper striker marathon referee stadium".split(),
    "food": "cook bakery soup cheese recipe".split(),
    "weather": "storm fog sunshine drizzle frost".split(),
    "music": "violin chorus melody drummer orchestra".split(),
    "travel": "train passport luggage hostel ferry".split(),
    "money": "loan tax invoice bank salary".split(),
}
