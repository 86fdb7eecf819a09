"""A second reading of aggregation contexts: the gold answer from the text alone. Shares no code with the family."""

import re
from collections import Counter
from datetime import datetime

LINE = re.compile(r"Date: (\w{3} \d\d, \d{4}) \|\| User: ([1-9]\d{4}) \|\| Instance: (.+)")
SHOWN = re.compile(r"(.+) \|\| Label: (.+)")


def parse(metadata: dict, context: str, labels: dict[str, str] | None) -> list[dict]:
    """The records of a context. labels: by text, where the lines have none."""
    head, _, body = context.partition("\n\n")
    assert f"The {metadata['n_records']} lines below" in head
    assert body.endswith("\n")
    records = []
    for line in body[:-1].split("\n"):
        match = LINE.fullmatch(line)
        assert match, f"no record: {line!r}"
        day, user, text = match.groups()
        if metadata["variant"] == "shown":
            text, label = SHOWN.fullmatch(text).groups()
            assert labels is None or labels[text] == label
        else:
            assert "||" not in text
            label = labels[text]
        records.append({"day": datetime.strptime(day, "%b %d, %Y").date(), "user": user, "label": label, "text": text})
    assert len(records) == metadata["n_records"]
    assert len({record["user"] for record in records}) == metadata["n_users"]
    return records


def only(candidates: list) -> str:
    assert len(candidates) == 1, f"tied or empty: {candidates[:5]}"
    return candidates[0]


def ranked(values: list, place: int) -> str:
    """The value at a place of the ranking by count, where no other has the same count."""
    counts = Counter(values)
    wanted = sorted(counts.values(), reverse=True)[place]
    return only([value for value, count in counts.items() if count == wanted])


def recompute(metadata: dict, context: str, labels: dict[str, str] | None = None) -> str:
    """The answer. Fails where it is tied or there is none."""
    asked = dict(metadata["asked"])
    task = asked.pop("task")
    records = parse(metadata, context, labels)

    def where(**fixed) -> list[dict]:
        return [record for record in records if all(record[key] in values for key, values in fixed.items())]

    def months(found: list[dict]) -> list[str]:
        return [record["day"].strftime("%Y-%m") for record in found]

    def day(name: str):
        return datetime.strptime(asked[name], "%b %d, %Y").date()

    def compared(found: list[dict]) -> str:
        first, second = (sum(record["label"] == asked[name] for record in found) for name in ("label", "other"))
        assert first or second
        return "more common than" if first > second else "less common than" if first < second else "same frequency as"

    all_labels = [record["label"] for record in records]
    own = where(label=[asked["label"]]) if "label" in asked else []
    rival = where(label=[asked["other"]]) if "other" in asked else []
    of_users = [str(user) for user in asked.get("users", [])]
    in_month = [record for record in records if record["day"].strftime("%b %Y") == asked.get("month")]

    match task:
        case "most_frequent_label":
            return ranked(all_labels, 0)
        case "second_most_frequent_label":
            return ranked(all_labels, 1)
        case "least_frequent_label":
            listed = re.findall(r'"([^"]+)"', re.search(r"The labels are (.+)\.\n", context)[1])
            assert set(listed) == set(all_labels), "a listed label does not occur"
            return ranked(all_labels, -1)
        case "most_frequent_among" | "least_frequent_among":
            winner = ranked([label for label in all_labels if label in asked["labels"]], -1 if task.startswith("least") else 0)
            assert task.startswith("most") or set(asked["labels"]) <= set(all_labels)
            return "ABCDE"[asked["labels"].index(winner)]
        case "compare_labels":
            return compared(records)
        case "compare_labels_in_month":
            return compared(in_month)
        case "label_of_month":
            return ranked([record["label"] for record in in_month], 0)
        case "most_active_user":
            return ranked([record["user"] for record in records], 0)
        case "second_most_active_user":
            return ranked([record["user"] for record in records], 1)
        case "most_active_user_of_label":
            return ranked([record["user"] for record in own], 0)
        case "user_with_most_among":
            return ranked([record["user"] for record in own if record["user"] in of_users], 0)
        case "label_of_user":
            return ranked([record["label"] for record in where(user=[str(asked["user"])])], 0)
        case "busiest_date":
            return f"{ranked([record['day'] for record in records], 0):%b %d, %Y}"
        case "busiest_date_of_label":
            return f"{ranked([record['day'] for record in own], 0):%b %d, %Y}"
        case "first_month_outnumbering":
            first = min(month for month in set(months(records)) if months(own).count(month) > months(rival).count(month))
            return datetime.strptime(first, "%Y-%m").strftime("%b %Y")
        case "count_of_label":
            number = len(own)
        case "difference_of_labels":
            number = len(own) - len(rival)
        case "labels_with_more_than":
            number = len([label for label in set(all_labels) if all_labels.count(label) > asked["number"]])
        case "users_of_label":
            number = len({record["user"] for record in own})
        case "count_of_label_of_user":
            number = sum(record["user"] == str(asked["user"]) for record in own)
        case "count_of_label_of_users":
            number = sum(record["user"] in of_users for record in own)
        case "months_outnumbering":
            number = sum(months(own).count(month) > months(rival).count(month) for month in set(months(records)))
        case "count_of_label_before":
            number = sum(record["day"] < day("date") for record in own)
        case "count_of_label_after":
            number = sum(record["day"] > day("date") for record in own)
        case "count_of_label_between":
            number = sum(day("date") <= record["day"] <= day("until") for record in own)
        case "count_of_label_on_date":
            number = sum(record["day"] == day("date") for record in own)
        case "dates_with_label":
            number = sum(count >= asked["number"] for count in Counter(record["day"] for record in own).values())
        case _:
            raise AssertionError(f"no second reading of {task}")
    assert number > 0
    return str(number)
