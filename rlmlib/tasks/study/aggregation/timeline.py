"""Tasks on time: dates, months of the calendar, and what lies before, after or between."""

import random
from datetime import date

from .records import day_text, month_text
from .tally import Reading, Tally
from .task import Found, Task, comparison, number, two_labels


def busiest_date(tally: Tally, rng: random.Random, reading: Reading) -> Found | None:
    return _found_day(reading.top(tally.days), {})


def busiest_date_of_label(tally: Tally, rng: random.Random, reading: Reading) -> Found | None:
    label = rng.choice(sorted(tally.labels))
    return _found_day(reading.top(tally.days_of(label)), {"label": label})


def first_month_outnumbering(tally: Tally, rng: random.Random, reading: Reading) -> Found | None:
    """Never the first month of all: that one could be guessed."""
    label, other = two_labels(tally, rng)
    months = [month for month in tally.months if tally.by_month[month][label] > tally.by_month[month][other]]
    if not months or months[0] == tally.months[0] or not reading.exactly(tally.size):
        return None
    month = months[0]
    return Found(month_text(month), {"label": label, "other": other}, (f"{month:%Y-%m}",))


def months_outnumbering(tally: Tally, rng: random.Random, reading: Reading) -> Found | None:
    label, other = two_labels(tally, rng)
    months = sum(counts[label] > counts[other] for counts in tally.by_month.values())
    return number(months, {"label": label, "other": other}) if reading.exactly(tally.size) else None


def count_of_label_before(tally: Tally, rng: random.Random, reading: Reading) -> Found | None:
    day = tally.sorted_days[rng.randrange(reading.scope(tally.size))]
    label = rng.choice(sorted(tally.labels))
    return number(_between(tally, label, date.min, day) - tally.by_day[day][label], {"label": label, "date": day_text(day)})


def count_of_label_after(tally: Tally, rng: random.Random, reading: Reading) -> Found | None:
    day = tally.sorted_days[-1 - rng.randrange(reading.scope(tally.size))]
    label = rng.choice(sorted(tally.labels))
    return number(_between(tally, label, day, date.max) - tally.by_day[day][label], {"label": label, "date": day_text(day)})


def count_of_label_between(tally: Tally, rng: random.Random, reading: Reading) -> Found | None:
    start = rng.randrange(tally.size)
    end = min(tally.size - 1, start + rng.randrange(reading.scope(tally.size)))
    first, last = tally.sorted_days[start], tally.sorted_days[end]
    if first == last or not reading.exactly(sum(count for day, count in tally.days.items() if first <= day <= last)):
        return None
    label = rng.choice(sorted(tally.labels))
    return number(_between(tally, label, first, last), {"label": label, "date": day_text(first), "until": day_text(last)})


def count_of_label_on_date(tally: Tally, rng: random.Random, reading: Reading) -> Found | None:
    day = rng.choice(tally.sorted_days)
    label = rng.choice(sorted(tally.by_day[day]))
    return number(tally.by_day[day][label], {"label": label, "date": day_text(day)}) if reading.exactly(tally.days[day]) else None


def label_of_month(tally: Tally, rng: random.Random, reading: Reading) -> Found | None:
    month = rng.choice(tally.months)
    label = reading.top(tally.by_month[month])
    return label and Found(label, {"month": month_text(month)})


def compare_labels_in_month(tally: Tally, rng: random.Random, reading: Reading) -> Found | None:
    month = rng.choice(tally.months)
    label, other = two_labels(tally, rng)
    counts = tally.by_month[month]
    return comparison({"label": label, "other": other, "month": month_text(month)}, counts[label], counts[other], reading)


def dates_with_label(tally: Tally, rng: random.Random, reading: Reading) -> Found | None:
    label = rng.choice(sorted(tally.labels))
    days = tally.days_of(label)
    least = rng.randint(2, max(2, max(days.values()) - 1))
    dates = sum(count >= least for count in days.values())
    return number(dates, {"label": label, "number": least}) if reading.exactly(tally.size) else None


def _between(tally: Tally, label: str, first: date, last: date) -> int:
    """Records of a label from `first` to `last`, both included."""
    return sum(count for day, count in tally.days_of(label).items() if first <= day <= last)


def _found_day(day: date | None, arguments: dict) -> Found | None:
    return day and Found(day_text(day), arguments, (day.isoformat(),))


TASKS = (
    Task("busiest_date", "timeline", "date", "records", busiest_date),
    Task("busiest_date_of_label", "timeline", "date", "label", busiest_date_of_label),
    Task("first_month_outnumbering", "timeline", "month", "label", first_month_outnumbering),
    Task("months_outnumbering", "timeline", "number", "label", months_outnumbering),
    Task("count_of_label_before", "timeline", "number", "label", count_of_label_before),
    Task("count_of_label_after", "timeline", "number", "label", count_of_label_after),
    Task("count_of_label_between", "timeline", "number", "label", count_of_label_between),
    Task("count_of_label_on_date", "timeline", "number", "label", count_of_label_on_date),
    Task("label_of_month", "timeline", "label", "labels", label_of_month),
    Task("compare_labels_in_month", "timeline", "comparison", "label", compare_labels_in_month),
    Task("dates_with_label", "timeline", "number", "label", dates_with_label),
)
