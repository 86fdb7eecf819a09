"""The words around the records: the head of a context, and each task's ways to ask."""

import itertools
import random
from collections.abc import Sequence
from typing import Literal

from ..recipe import RecipeSplit
from .descriptions import description, kind

Variant = Literal["shown", "hidden", "semantic"]
Kind = Literal["number", "label", "user", "date", "month", "comparison", "choice"]  # of an answer

LETTERS = "ABCDE"
MORE, LESS, SAME = "more common than", "less common than", "same frequency as"

ENDINGS: dict[Kind, tuple[str, ...]] = {
    "number": ("Answer with the number only.", "Give a bare number.", "Reply with nothing but the number."),
    "label": ("Answer with the label only.", "Give the bare name of the label.", "Reply with nothing but the label."),
    "user": ("Answer with the user's number only.", "Give the bare user number.", "Reply with nothing but the number of the user."),
    "date": (
        "Answer with the date only, as the lines write it.",
        "Give the bare date in the form of the lines.",
        "Reply with nothing but the date, written as in the lines.",
    ),
    "month": (
        "Answer with the month and the year only, as in Mar 2021.",
        "Give the bare month and year in the form Mar 2021.",
        "Reply with nothing but month and year, such as Mar 2021.",
    ),
    "comparison": (
        f'Answer with one of "{MORE}", "{LESS}" and "{SAME}" only.',
        f'Give just one of these: "{MORE}", "{LESS}", "{SAME}".',
        f'Reply with nothing but "{MORE}", "{LESS}" or "{SAME}".',
    ),
    "choice": ("Answer with the letter only.", "Give the bare letter.", "Reply with nothing but the letter."),
}

PHRASINGS: dict[str, tuple[str, ...]] = {
    # counting
    "most_frequent_label": (
        "Which label is the most frequent?",
        "Which label do more records have than any other label?",
        "What is the most common label of all the records?",
    ),
    "least_frequent_label": (
        "Which label is the least frequent?",
        "Which label do fewer records have than any other label?",
        "What is the rarest label of all the records?",
    ),
    "second_most_frequent_label": (
        "Which label is the second most frequent?",
        "Which label comes second when labels are ranked by their number of records, most first?",
        "What is the second most common label of all the records?",
    ),
    "count_of_label": (
        "How many {label} are there?",
        "What is the number of {label}?",
        "Count all {label}. How many are there?",
    ),
    "compare_labels": (
        "How does the number of {label} compare with the number of {other}: is the first kind more common, less common or as common?",
        "Are {label} more common than {other}, less common, or of the same frequency?",
        "Compare {label} with {other}. Is the first kind more common, less common or of the same frequency?",
    ),
    "most_frequent_among": (
        "Which of these are the most frequent?",
        "Of which of these are there more than of any other here?",
        "Which of these come first when ranked by their number, most first?",
    ),
    "least_frequent_among": (
        "Which of these are the least frequent?",
        "Of which of these are there fewer than of any other here?",
        "Which of these come last when ranked by their number, most first?",
    ),
    "difference_of_labels": (
        "How many more {label} are there than {other}?",
        "By how much does the number of {label} exceed the number of {other}?",
        "Subtract the number of {other} from the number of {label}. What is left?",
    ),
    "labels_with_more_than": (
        "How many labels have more than {number} records?",
        "What is the number of labels that occur more than {number} times?",
        "Of how many labels are there more than {number} records?",
    ),
    # users
    "most_active_user": (
        "Which user posted the most records?",
        "Which user occurs more often than any other user?",
        "Who has more records than anybody else?",
    ),
    "second_most_active_user": (
        "Which user posted the second most records?",
        "Which user comes second when users are ranked by their number of records, most first?",
        "Who is second in the number of records posted?",
    ),
    "most_active_user_of_label": (
        "Which user posted the most {label}?",
        "Which user has the largest number of {label}?",
        "By which user are there more {label} than by any other?",
    ),
    "users_of_label": (
        "How many different users posted {label}?",
        "What is the number of distinct users who have at least one post among the {label}?",
        "By how many different users are there {label}?",
    ),
    "label_of_user": (
        "Which label is the most frequent among the records of user {user}?",
        "Which label do more records of user {user} have than any other label?",
        "What is the most common label of what user {user} posted?",
    ),
    "count_of_label_of_user": (
        "How many {label} did user {user} post?",
        "What is the number of {label} by user {user}?",
        "Count the {label} that user {user} posted. How many are there?",
    ),
    "count_of_label_of_users": (
        "How many {label} did the users {users} post in all?",
        "What is the number of {label} by any of the users {users}?",
        "Count the {label} that the users {users} posted, all together. How many are there?",
    ),
    "user_with_most_among": (
        "Which of the users {users} posted the most {label}?",
        "Among the users {users}, who has the largest number of {label}?",
        "Of the users {users}, by whom are there the most {label}?",
    ),
    # timeline
    "busiest_date": (
        "Which date has the most records?",
        "On which date were more records posted than on any other?",
        "What is the date that occurs most often?",
    ),
    "busiest_date_of_label": (
        "Which date has the most {label}?",
        "On which date are there more {label} than on any other?",
        "What is the date with the largest number of {label}?",
    ),
    "first_month_outnumbering": (
        "In which month were there more {label} than {other} for the first time?",
        "Which is the earliest month with more {label} than {other}?",
        "Going by calendar months from the earliest on, when did {label} first outnumber {other}?",
    ),
    "months_outnumbering": (
        "In how many calendar months are there more {label} than {other}?",
        "What is the number of calendar months in which {label} outnumber {other}?",
        "Month by month of the calendar, how often are there more {label} than {other}?",
    ),
    "count_of_label_before": (
        "How many {label} are dated before {date}, that day left out?",
        "What is the number of {label} from the days before {date}, without that day?",
        "Count the {label} dated earlier than {date}. How many are there?",
    ),
    "count_of_label_after": (
        "How many {label} are dated after {date}, that day left out?",
        "What is the number of {label} from the days after {date}, without that day?",
        "Count the {label} dated later than {date}. How many are there?",
    ),
    "count_of_label_between": (
        "How many {label} are dated from {date} to {until}, both days included?",
        "What is the number of {label} between {date} and {until}, with both of these days?",
        "Count the {label} dated {date} to {until}, these two days included. How many are there?",
    ),
    "count_of_label_on_date": (
        "How many {label} are dated {date}?",
        "What is the number of {label} on {date}?",
        "Count the {label} dated {date}. How many are there?",
    ),
    "label_of_month": (
        "Which label is the most frequent among the records of {month}?",
        "Which label do more records of {month} have than any other label?",
        "What is the most common label in {month}?",
    ),
    "compare_labels_in_month": (
        "In {month}, are {label} more common than {other}, less common, or of the same frequency?",
        "Compare {label} with {other} in {month} alone. Is the first kind more common, less common or of the same frequency?",
        "How do the numbers of {label} and of {other} compare in {month}: is the first kind more common, less common or as common?",
    ),
    "dates_with_label": (
        "On how many dates are there at least {number} {label}?",
        "What is the number of dates that have {number} or more {label}?",
        "How many dates have no fewer than {number} {label}?",
    ),
}


def header(known: str, labels: Sequence[str], variant: Variant, count: int) -> str:
    """The head of a context of `count` records of a known set or another. Ends in a line break."""
    parts = "a date, the number of the user who posted the text, and the text"
    start = f"The {count} lines below are {kind(known)}, one record a line, in no order.\nEach line has {parts}"
    listed = ", ".join(f'"{label}"' for label in labels)
    if variant == "shown":
        return f"{start}, then its label.\nThe labels are {listed}.\n\n"
    if variant == "hidden":
        return f"{start}. Each record has exactly one label, which follows from its text but is not written.\nThe labels are {listed}.\n\n"
    return f"{start}.\n\n"


def ask(task: str, answer: Kind, arguments: dict, known: str, variant: Variant, split: RecipeSplit, rng: random.Random) -> str:
    """A question on a context of a known set or another. arguments: see the tasks; labels become what their records are.

    A third of the pairs of phrasing and ending is eval's alone, so that no question stands in both splits.
    """

    def noun(label: str) -> str:
        return description(known, label) if variant == "semantic" else f"records with the label '{label}'"

    filled = {key: noun(value) if key in ("label", "other") else value for key, value in arguments.items()}
    if "users" in filled:
        *others, last = filled["users"]
        filled["users"] = f"{', '.join(map(str, others))} and {last}"
    choices = "".join(f"\n({letter}) {noun(label)}" for letter, label in zip(LETTERS, arguments.get("labels", ()), strict=False))
    phrasing, ending = rng.choice(_wordings(task, answer, split))
    return f"{phrasing.format(**filled)} {ending}{choices}"


def _wordings(task: str, answer: Kind, split: RecipeSplit) -> list[tuple[str, str]]:
    pairs = itertools.product(enumerate(PHRASINGS[task]), enumerate(ENDINGS[answer]))
    return [(phrasing, ending) for (i, phrasing), (j, ending) in pairs if ((i + j) % 3 == 0) == (split == "eval")]
