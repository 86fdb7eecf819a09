"""Counts of the records of a context, and what a question may rest on."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from .records import Post


class Tally:
    """All counts that questions need. labels: of the pool, whether they occur or not."""

    def __init__(self, posts: Sequence[Post], labels: Sequence[str]):
        self.posts, self.pool_labels = posts, labels
        self.labels = Counter(post.label for post in posts)
        self.users = Counter(post.user for post in posts)
        self.days = Counter(post.day for post in posts)
        self.sorted_days = sorted(post.day for post in posts)  # one a record
        self.by_user: dict[int, Counter] = defaultdict(Counter)
        self.by_day: dict[date, Counter] = defaultdict(Counter)
        self.by_month: dict[date, Counter] = defaultdict(Counter)  # key: its first day
        for (user, label), count in Counter((post.user, post.label) for post in posts).items():
            self.by_user[user][label] = count
        for (day, label), count in Counter((post.day, post.label) for post in posts).items():
            self.by_day[day][label] = count
            self.by_month[day.replace(day=1)][label] += count
        self.months = sorted(self.by_month)

    @property
    def size(self) -> int:
        return len(self.posts)

    def users_of(self, label: str) -> Counter:
        return Counter({user: counts[label] for user, counts in self.by_user.items() if label in counts})

    def days_of(self, label: str) -> Counter:
        return Counter({day: counts[label] for day, counts in self.by_day.items() if label in counts})


@dataclass(frozen=True)
class Reading:
    """What can be asked of one who may have to read texts to know their labels, and errs now and then.

    exact: records of which a number may be asked; None: any. lead: of the winner over the next, as a share of the next; at
    least one record in any case, as no question may be tied.
    """

    exact: int | None = None
    lead: float = 0.0

    def exactly(self, records: int) -> bool:
        return self.exact is None or records <= self.exact

    def scope(self, records: int) -> int:
        """How many of so many records a number may be asked of."""
        return records if self.exact is None else min(records, self.exact)

    def leads(self, first: int, second: int) -> bool:
        return first - second >= max(1, math.ceil(self.lead * second))

    def top(self, counts: Counter, place: int = 1):
        """The key at a place of the ranking (1: most), if it leads the next and is led by the one before; else None."""
        ranked = counts.most_common(place + 1)
        if len(ranked) < place:
            return None
        sizes = [count for _, count in ranked] + [0]
        is_led = place == 1 or self.leads(sizes[place - 2], sizes[place - 1])
        return ranked[place - 1][0] if is_led and self.leads(sizes[place - 1], sizes[place]) else None

    def bottom(self, counts: Counter):
        """The key with the smallest count, if the next leads it; else None. For two keys or more."""
        (_, next_count), (key, count) = counts.most_common()[-2:]
        return key if self.leads(next_count, count) else None
