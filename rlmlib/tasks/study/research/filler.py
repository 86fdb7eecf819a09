"""Sentences that tell none of the facts: other dates, numbers and names, and rumours that are said to be wrong.

{n} is the thing of the page. {who}, {peer} (somebody of about the same age) and {town} are others of its world. {k} is a number,
{y} a year since its beginning, {modern} one since 1860 too, {life} one of a person's active years. The rest are the lists here.
"""

LISTS: dict[str, tuple[str, ...]] = {
    "adjective": tuple(
        "ancient careful cheerful costly curious damp elaborate faded famous generous heated lengthy modest narrow plain rare shabby "
        "slender solemn stern sturdy tedious timely uneven unusual vivid worn".split()
    ),
    "thing": tuple(
        "account book|bronze medal|brass telescope|carved chair|clay model|copper plate|coloured map|folding screen|glass cabinet|"
        "guild banner|iron gate|ivory chess set|leather satchel|letter book|linen shawl|marble bust|music stand|oil lamp|pewter jug|"
        "pocket watch|portrait in chalk|printed catalogue|sealed letter|silver inkwell|sketchbook|stone relief|travelling trunk|"
        "tuning fork|weather diary|wooden globe|writing desk".split("|")
    ),
    "group": tuple(
        "a choir|a committee of merchants|a group of former pupils|a party of travellers|a reading circle|the board of trade|"
        "the bridge wardens|the brewers|the harbour office|the historical society|the parish council|the postal service|"
        "the school inspectors|the town council|two rival newspapers|several farmers".split("|")
    ),
    "topic": tuple(
        "the care of old paper|the colour of glazes|the cost of lamp oil|the drainage of marshes|the grafting of pears|"
        "the history of bells|the keeping of bees|the laying of cables|the migration of geese|the motion of comets|"
        "the names of winds|the price of salt|the repair of organs|the strength of rope|the study of lichens|the timing of tides|"
        "the use of sundials|the weaving of nets".split("|")
    ),
    "season": tuple(
        "in early spring|in late summer|in the autumn|in a hard winter|during the harvest|shortly after the new year".split("|")
    ),
}

ANY: tuple[str, ...] = (
    "A lecture of {modern} on {topic} touches on {n} only in passing.",
    "A {adjective} {thing} connected with {n} was sold at auction in {modern} for {k} crowns.",
    "In {modern} {group} asked for a report on {topic}, and {n} is mentioned on page {k}.",
    "An inventory of {y} lists a {adjective} {thing} and, beside it, a {thing}.",
    "{Season} {group} paid for a {adjective} plaque, which was stolen in {modern}.",
    "Opinions on the matter differ, and {k} pages on it have been published by {group}.",
    "A traveller who passed through {town} in {y} wrote a {adjective} note about {n}.",
    "The story that {who} once owned a {thing} from this collection cannot be proved.",
    "According to a newspaper of {modern}, {group} collected {k} signatures in support of a memorial.",
    "Much of what was written before {modern} rests on hearsay.",
    "A {adjective} essay on {topic} compares {n} with {who}, to the advantage of neither.",
    "The archives of {town} hold {k} sheets on the subject, most of them damaged by water.",
    "{Season}, {group} arranged a small display with a {thing} and a {thing}.",
    "A school in {town} staged a {adjective} play about it in {modern}.",
    "The sources name {k} witnesses, of whom only a few can be traced.",
    "Interest faded after {y} and returned when {group} printed a {adjective} pamphlet.",
    "In an undated letter {who} calls the affair {adjective} and turns to {topic}.",
    "The {thing} shown to visitors today is a copy made in {modern}.",
    "A radio programme of {modern} gave {k} minutes to {n} and the rest to {topic}.",
    "Two of the {k} known photographs show a {adjective} {thing} in the foreground.",
    "The {adjective} tone of older accounts is blamed on a quarrel with {group}.",
    "Visitors from {town} left a {thing} behind in {y}, and nobody has claimed it.",
    "What {who} had to do with it is a question raised from time to time by {group}.",
    "The best known anecdote involves a {thing}, a {adjective} remark and the road to {town}.",
    "A list of {y} with {k} names was found inside a {thing}.",
    "{Season} a {adjective} exhibition on {topic} borrowed its title from this subject.",
    "Children in {town} are told a {adjective} version that ends with a {thing}.",
    "A stamp issued in {modern} shows a {thing} instead, by mistake.",
)

ABOUT: dict[str, tuple[str, ...]] = {
    "person": (
        "An older handbook wrongly gives {life} as the year of birth.",
        "It was long believed, without any ground, that {town} was the place of birth.",
        "{S} corresponded with {peer} about {topic}.",
        "A street in {town} has carried the name since {modern}.",
        "In {life} {s} spent some months in {town} and wrote about {topic}.",
        "{O} papers include {k} letters and a {adjective} {thing}.",
        "{S} is said to have walked {k} miles to see a {thing}.",
        "{S} declined an offer from {group} in {life}.",
        "A cousin kept a {adjective} shop in {town} until {life}.",
        "The rumour that {peer} was a relative has been disproved.",
        "{O} views on {topic} were called {adjective} by {group}.",
        "{S} owned a {thing}, a {thing} and little else.",
        "In {life} {s} lost a lawsuit over a {thing} against {peer}.",
        "{S} kept a diary from {life} on, with {adjective} remarks on {topic}.",
    ),
    "town": (
        "A flood of {y} destroyed {k} houses.",
        "The tower of the main church was struck by lightning in {y}.",
        "A claim that the town is older than {town} was withdrawn in {modern}.",
        "The railway came in {modern} and was closed again a generation later.",
        "A tourist guide wrongly lists it under another province.",
        "A statue of {who} stood by the well until {modern}.",
        "The weekly market was moved {season} by {group}.",
        "The cinema of {modern} now houses a {adjective} workshop for {topic}.",
        "A census of {y} that counted {k} hearths is thought to be unreliable.",
        "There are {k} lime trees along the road to {town}.",
        "Its fire brigade has owned a {adjective} {thing} since {modern}.",
        "A partnership with {town} was discussed by {group} and dropped.",
    ),
    "institution": (
        "A fire of {y} spared the reading room but not the {thing}.",
        "A branch in {town} was planned in {y} and never built.",
        "Its collections hold {k} volumes on {topic}.",
        "A portrait of {who} hangs in the stairwell.",
        "Some guides wrongly name {who} as its founder.",
        "Fees were raised {season}, which {group} called {adjective}.",
        "The roof was renewed in {y} at a cost of {k} crowns.",
        "A prize for work on {topic} has been given since {y}.",
        "Its emblem shows a {thing} and a {thing}.",
        "The statutes were rewritten in {y} under pressure from {group}.",
        "A plan to move to {town} failed for want of money.",
    ),
    "work": (
        "An early draft is {k} leaves long.",
        "The first reprint, of {y}, contains {k} errors.",
        "For a time it was wrongly ascribed to {who}.",
        "A copy once in {town} was lost in {y}.",
        "One scene turns on a {adjective} {thing}.",
        "Critics praised its treatment of {topic}.",
        "It was forbidden for a season by {group}.",
        "A parody appeared in {town} in {y}.",
        "The paper has been dated by its watermark, a {thing}.",
        "Only {k} people are known to have bought the facsimile of {modern}.",
        "A letter to {who} calls it {adjective}.",
    ),
    "event": (
        "A medal with a {thing} was struck for the occasion.",
        "The weather was poor and {k} tents were blown down.",
        "A plan to hold it in {town} had been given up {season}.",
        "A speech on {topic} lasted until midnight.",
        "Some reports wrongly name {who} as its leader.",
        "The accounts, closed in {y}, show a loss of {k} crowns.",
        "A {adjective} quarrel over {topic} filled the last evening.",
        "An attempt of {y} to repeat it came to nothing.",
        "Its minutes, {k} pages in all, lie in {town}.",
        "A dinner was given by {group}, with a {thing} as first prize.",
    ),
}

SECTIONS: dict[str, tuple[str, ...]] = {
    "person": ("Life", "Work", "Reception", "Legacy"),
    "town": ("History", "Sights", "Economy", "Culture"),
    "institution": ("History", "Collections", "Buildings", "Reception"),
    "work": ("Origin", "Contents", "Reception", "Sources"),
    "event": ("Background", "Course", "Aftermath", "Sources"),
}
