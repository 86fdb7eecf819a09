"""A second reading of generated research contexts: facts by regular expressions, answers from the query alone.

Shares no code with the package. `@` in a pattern is the thing of the page.
"""

import re
from datetime import date

MONTHS = {
    name: number
    for number, name in enumerate("January February March April May June July August September October November December".split(), start=1)
}
DAY = r"(\d{1,2} [A-Z][a-z]+ \d{4}|[A-Z][a-z]+ \d{1,2}, \d{4})"
YEAR = r"(\d{3,4})"
COUNT = r"(\d{1,3}(?:,\d{3})*)"
WORD = r"([a-z]+)"
NAME = r"([A-Z]\w+(?: [A-Z]\w+)*)"  # of a person, town, institution, province or river: capitals only
HE, HIS = "(?:He|She)", "(?:His|Her)"

SINGLE = {
    "born": [f"@ was born on {DAY}", f"The church register records the birth of @ under {DAY}", f"{HE} came into the world on {DAY}"]
    + [f"{HIS} date of birth is given as {DAY}"],
    "died": [f"@ died on {DAY}", f"{HE} passed away on {DAY} after a short illness", f"Death came on {DAY}"]
    + [f"The burial book notes {DAY} as the day on which @ died"],
    "birthplace": [f"@ was born in {NAME}", f"{HIS} native town was {NAME}", f"{HE} grew up in {NAME}, where s?he had been born"]
    + [f"The house in which @ was born stands in {NAME}"],
    "occupation": [f"By profession @ was an? {WORD}", f"{HE} earned a living as an? {WORD}", f"{HIS} trade was that of an? {WORD}"]
    + [f"In documents of the time @ signs as {WORD}"],
    "school": [f"@ studied at {NAME}", f"{HIS} student years were spent at {NAME}", f"{HE} enrolled at {NAME} at the age of eighteen"]
    + [f"The rolls of {NAME} list @ among the students"],
    "teacher": [f"@ was taught by {NAME}", f"{HIS} teacher was {NAME}", f"{HE} learned the craft under {NAME}"]
    + [f"It was {NAME} who taught @"],
    "spouse": [f"@ was married to {NAME}", f"{HE} married {NAME}", f"{HIS} marriage with {NAME} lasted until death parted them"]
    + [f"In the spring s?he wed {NAME}"],
    "province": [f"@ belongs to {NAME}", f"The town lies in {NAME}", f"For purposes of administration it is part of {NAME}"]
    + [f"Since the last reform @ has been in {NAME}"],
    "river": [f"@ stands on the river {NAME}", f"The river {NAME} flows through the town", f"Its quays line the river {NAME}"]
    + [f"The old bridge of @ crosses the river {NAME}"],
    "founded": [f"@ was founded in {YEAR}", f"The town charter dates its foundation to {YEAR}", f"Settlers founded the town in {YEAR}"]
    + [f"The foundation of @ falls in the year {YEAR}"],
    "population": [f"@ has {COUNT} inhabitants", f"The latest census counted {COUNT} inhabitants", f"Its population is {COUNT}"]
    + [f"Today {COUNT} people live in @"],
    "altitude": [f"@ lies {COUNT} metres above the sea", f"The market square is at an altitude of {COUNT} metres"]
    + [f"Its altitude is {COUNT} metres", f"Surveyors put the height of @ at {COUNT} metres"],
    "seat": [f"@ has its seat in {NAME}", f"Its main building stands in {NAME}", f"The institution is based in {NAME}"]
    + [f"Visitors find @ in the centre of {NAME}"],
    "opened": [f"@ opened in {YEAR}", f"Its doors first opened in {YEAR}", f"The opening took place in {YEAR}"]
    + [f"The year in which @ opened was {YEAR}"],
    "founder": [f"@ was founded by {NAME}", f"Its founder was {NAME}", f"The institution owes its existence to {NAME}, who founded it"]
    + [f"It was {NAME} who founded @"],
    "staff": [f"@ employs {COUNT} people", f"Its staff numbers {COUNT}", f"The payroll lists {COUNT} people"]
    + [f"In all, {COUNT} people work at @"],
    "author": [f"@ was made by {NAME}", f"Its author is {NAME}", f"The hand behind @ is that of {NAME}", f"The work is by {NAME}"],
    "year": [f"@ was completed in {YEAR}", f"The work was finished in {YEAR}", f"Its date of completion is {YEAR}"]
    + [f"The last touches to @ were put in {YEAR}"],
    "form": [f"In form @ is an? {WORD}", f"The work is an? {WORD}", f"Catalogues list it as an? {WORD}"]
    + [f"It belongs to the genre of the {WORD}"],
    "dedicatee": [f"@ is dedicated to {NAME}", f"The work bears a dedication to {NAME}", f"Its dedicatee is {NAME}"]
    + [f"On the first leaf stands a dedication to {NAME}"],
    "keeper": [f"@ is kept at {NAME}", f"The original is in the keeping of {NAME}", f"Its present home is {NAME}"]
    + [f"For many years {NAME} has kept @"],
    "place": [f"The @ took place in {NAME}", f"The town of {NAME} was its host", f"The venue was {NAME}"]
    + [f"It was {NAME} that gave a home to the @"],
    "held": [f"The @ began on {DAY}", f"The opening day was {DAY}", f"It opened on {DAY}", f"Proceedings started on {DAY}"]
    + [f"The @ opened on {DAY}"],
    "leader": [f"The @ was led by {NAME}", f"Its leader was {NAME}", f"The organisers chose {NAME} to lead it"]
    + [f"At the head of the @ stood {NAME}"],
    "attendance": [f"The @ drew {COUNT} people", f"Its attendance was {COUNT}", f"In all, {COUNT} people attended"]
    + [f"The count of those who attended came to {COUNT}"],
}
SEVERAL = [
    (f"@ \\({DAY} \u2013 {DAY}\\) was a noted {WORD}", "born died occupation"),
    (f"@ was an? {WORD} and a native of {NAME}", "occupation birthplace"),
    (f"@ \\(born {DAY} in {NAME}\\) worked for most of life as an? {WORD}", "born birthplace occupation"),
    (f"@ is a town in {NAME}, on the river {NAME}", "province river"),
    (f"@ is a town that lies {COUNT} metres above the sea, in {NAME}", "altitude province"),
    (f"@ is an old market town with {COUNT} inhabitants", "population"),
    (f"@ is an institution in {NAME}, founded by {NAME}", "seat founder"),
    (f"@ opened its doors in {YEAR} in the town of {NAME}", "opened seat"),
    (f"@ has a staff of {COUNT}", "staff"),
    (f"@ is an? {WORD} by {NAME}", "form author"),
    (f"@ is an? {WORD} completed in {YEAR}", "form year"),
    (f"@, by {NAME}, was finished in {YEAR}", "author year"),
    (f"The @ was held in {NAME} and opened on {DAY}", "place held"),
    (f"The @ was led by {NAME} and drew {COUNT} people", "leader attendance"),
]
PATTERNS = [(pattern + r"\.", [relation]) for relation, patterns in SINGLE.items() for pattern in patterns]
PATTERNS += [(pattern + r"\.", relations.split()) for pattern, relations in SEVERAL]
ANY = re.compile("|".join(f"(?P<p{i}>{pattern})" for i, (pattern, _) in enumerate(PATTERNS)))

HEADER = re.compile(r"^===== page: (.*) =====$", re.MULTILINE)


def pages(context: str) -> dict[str, str]:
    """Text of each page by its title."""
    parts = HEADER.split(context)
    assert parts[0] == "", "the context does not begin with a page"
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def facts(context: str) -> dict[str, dict]:
    """Values by title and relation. A page that tells one relation twice is an error."""
    found = {}
    for title, text in pages(context).items():
        told = {}
        for line in text.split("\n"):
            for sentence in re.split(r"(?<=\.) ", line):
                match = ANY.fullmatch(sentence.replace(title, "@"))
                if match:
                    relations = PATTERNS[int(match.lastgroup[1:])][1]
                    values = [value for value in match.groups()[match.re.groupindex[match.lastgroup] :] if value]
                    for relation, value in zip(relations, values, strict=True):
                        assert relation not in told, f"{title}: {relation} is told twice"
                        told[relation] = parsed(value)
        if told:
            found[title] = told
    return found


def parsed(value: str):
    """A day as a date, a number as an int, anything else as it is."""
    if re.fullmatch(r"[\d,]+", value):
        return int(value.replace(",", ""))
    if match := re.fullmatch(r"(\d{1,2}) ([A-Z][a-z]+) (\d{4})", value):
        return date(int(match[3]), MONTHS[match[2]], int(match[1]))
    if match := re.fullmatch(r"([A-Z][a-z]+) (\d{1,2}), (\d{4})", value):
        return date(int(match[3]), MONTHS[match[1]], int(match[2]))
    return value


def solve(query: list, told: dict[str, dict]):
    """The answer of a query from the facts of a context; asserts that it is the only one."""
    op, *rest = query
    if op == "name":
        assert rest[0] in told, f"{rest[0]} has no page"
        return rest[0]
    if op == "get":
        return told[solve(rest[1], told)][rest[0]]
    if op == "all":
        wanted = {relation: solve(value, told) for relation, value in rest[1]}
        return {title for title, values in told.items() if wanted.items() <= values.items()}
    if op == "list":
        return {solve(item, told) for item in rest}
    if op in ("before", "after"):
        limit = in_years(solve(rest[1], told))
        years = {title: in_years(told[title][rest[0]]) for title in solve(rest[2], told)}
        assert limit not in years.values()
        return {title for title, year in years.items() if (year < limit if op == "before" else year > limit)}
    if op == "except":
        return solve(rest[0], told) - {solve(rest[1], told)}
    if op == "only":
        (one,) = solve(rest[0], told)
        return one
    if op == "nth":
        ranked = in_order(solve(rest[2], told), rest[1], told)
        return ranked[-1] if rest[0] == -1 else ranked[rest[0] - 1]
    if op == "next":
        ranked = in_order(solve(rest[1], told), rest[0], told)
        return ranked[ranked.index(solve(rest[2], told)) + 1]
    if op == "count":
        return len(solve(rest[0], told))
    if op == "sum":
        return sum(told[title][rest[0]] for title in solve(rest[1], told))
    first, second = solve(rest[0], told), solve(rest[1], told)
    if op == "years":
        return abs(in_years(first) - in_years(second))
    if op == "days":
        return abs((first - second).days)
    assert op == "age"
    birthday_passed = (second.month, second.day) >= (first.month, first.day)
    return second.year - first.year - (0 if birthday_passed else 1)


def in_order(titles: set, relation: str, told: dict[str, dict]) -> list[str]:
    values = [told[title][relation] for title in titles]
    assert len(values) == len(set(values)) >= 2, "a tie, or nothing to compare"
    return sorted(titles, key=lambda title: told[title][relation])


def in_years(value) -> int:
    return value.year if isinstance(value, date) else value


def answer_of(context: str, query: list):
    """What a reader of the context answers."""
    return solve(query, facts(context))
