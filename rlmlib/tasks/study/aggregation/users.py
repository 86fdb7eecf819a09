"""Tasks on users: who posts most, and what the records of some users are."""

import random
from collections import Counter

from .tally import Reading, Tally
from .task import Found, Task, number

FEWEST_OF_USER = 3  # records of a user whose labels are ranked


def most_active_user(tally: Tally, rng: random.Random, reading: Reading) -> Found | None:
    user = reading.top(tally.users)
    return user and Found(str(user))


def second_most_active_user(tally: Tally, rng: random.Random, reading: Reading) -> Found | None:
    user = reading.top(tally.users, 2)
    return user and Found(str(user))


def most_active_user_of_label(tally: Tally, rng: random.Random, reading: Reading) -> Found | None:
    label = rng.choice(sorted(tally.labels))
    user = reading.top(tally.users_of(label))
    return user and Found(str(user), {"label": label})


def users_of_label(tally: Tally, rng: random.Random, reading: Reading) -> Found | None:
    label = rng.choice(sorted(tally.labels))
    return number(len(tally.users_of(label)), {"label": label}) if reading.exactly(tally.size) else None


def label_of_user(tally: Tally, rng: random.Random, reading: Reading) -> Found | None:
    user = _some_user(tally, rng)
    label = reading.top(tally.by_user[user]) if tally.users[user] >= FEWEST_OF_USER else None
    return label and Found(label, {"user": user})


def count_of_label_of_user(tally: Tally, rng: random.Random, reading: Reading) -> Found | None:
    user = _some_user(tally, rng)
    label = rng.choice(sorted(tally.by_user[user]))
    return number(tally.by_user[user][label], {"label": label, "user": user}) if reading.exactly(tally.users[user]) else None


def count_of_label_of_users(tally: Tally, rng: random.Random, reading: Reading) -> Found | None:
    users = _some_users(tally, rng)
    if len(users) < 2 or not reading.exactly(sum(tally.users[user] for user in users)):
        return None
    label = rng.choice(sorted(tally.by_user[users[0]]))
    return number(sum(tally.by_user[user][label] for user in users), {"label": label, "users": users})


def user_with_most_among(tally: Tally, rng: random.Random, reading: Reading) -> Found | None:
    users = _some_users(tally, rng)
    if len(users) < 2:
        return None
    label = rng.choice(sorted(tally.by_user[users[0]]))
    top = reading.top(Counter({user: tally.by_user[user][label] for user in users}))
    return top and Found(str(top), {"label": label, "users": users})


def _some_user(tally: Tally, rng: random.Random) -> int:
    """The more active, the likelier."""
    return rng.choice(tally.posts).user


def _some_users(tally: Tally, rng: random.Random) -> list[int]:
    """Two to five, in random order; one where there is no other."""
    count = min(rng.randint(2, 5), len(tally.users))
    users: dict[int, None] = {}
    while len(users) < count:
        users[_some_user(tally, rng)] = None
    return list(users)


TASKS = (
    Task("most_active_user", "user", "user", "records", most_active_user),
    Task("second_most_active_user", "user", "user", "records", second_most_active_user),
    Task("most_active_user_of_label", "user", "user", "label", most_active_user_of_label),
    Task("users_of_label", "user", "number", "label", users_of_label),
    Task("label_of_user", "user", "label", "labels", label_of_user),
    Task("count_of_label_of_user", "user", "number", "label", count_of_label_of_user),
    Task("count_of_label_of_users", "user", "number", "label", count_of_label_of_users),
    Task("user_with_most_among", "user", "user", "label", user_with_most_among),
)
