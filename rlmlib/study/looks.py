"""How groups look and are named in the charts of a study: one style a group in all of them."""

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

BASE, ALONE = "base", "plain"  # the untrained policy, and the leaf without a policy
HEADLINE = (BASE, "lora", "no-penalty", "full")
LOOKS = {
    "base": "base", "plain": "alone", "lora": "trained", "no-penalty": "third", "full": "fourth", "depth2": "fifth",
    "depth2-warm": "third", "depth2-bonus": "sixth", "shown": "fifth", "hidden": "sixth",
}  # fmt: skip
SPARE = ("trained", "third", "fourth", "fifth", "sixth", "base", "alone", "plain", "muted")
MOST = 4  # groups of a chart that has no headline groups to show


def styles(groups: Iterable[str]) -> dict[str, str]:
    """A style for each group: its own, or for groups that have none (or whose is taken) one that is free; the ninth begins again."""
    groups, found = list(groups), {}
    for group in groups:
        if (wanted := LOOKS.get(group)) and wanted not in found.values():
            found[group] = wanted
    for group in groups:
        if group not in found:
            free = [style for style in SPARE if style not in found.values()]
            found[group] = free[0] if free else SPARE[len(found) % len(SPARE)]
    return {group: found[group] for group in groups}


def chosen(frame: "pd.DataFrame", wanted: Sequence[str] = HEADLINE) -> list[str]:
    """Groups of a frame to show: those of `wanted` that it has, else its first few."""
    there = list(dict.fromkeys(frame["group"])) if "group" in frame else []
    return [group for group in wanted if group in there] or there[:MOST]


def short_name(label: str) -> str:
    """A group's label for beside a point: 'rank16 lr0.001' and 'rank 16, lr 0.001' become 'r16, lr 1e-3'."""
    found = re.fullmatch(r"rank ?(\d+)[ ,-]+lr ?([\d.e-]+)", label)
    return f"r{found[1]}, lr {rate_name(float(found[2]))}" if found else label


def rate_name(lr: float) -> str:
    """A learning rate: 5e-5, 1e-3."""
    digits, power = f"{lr:e}".split("e")
    return f"{float(digits):g}e{int(power)}"


def names(frame: "pd.DataFrame") -> dict[str, str]:
    """Group -> its label, made short."""
    return {group: short_name(str(label)) for group, label in zip(frame["group"], frame["label"], strict=True)}


def listed(parts: Sequence[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def capital(sentence: str) -> str:
    """The same with its first letter large, the others as they are."""
    return sentence[:1].upper() + sentence[1:]


def between(numbers: Iterable[float]) -> str:
    """'3' where all are the same, else '1 to 3'."""
    found = sorted({int(n) for n in numbers if n == n})
    return f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}" if found else "no"


def seeds_told(numbers: Iterable[float]) -> str:
    """'one seed a group', '3 seeds a group', '1 to 3 seeds a group'."""
    told = between(numbers)
    return "one seed a group" if told == "1" else f"{told} seeds a group"


def questions_told(groups: "pd.DataFrame") -> str:
    """How many questions a group was asked, in words."""
    return f"{between(groups['n_examples'])} held-out questions" if "n_examples" in groups else "held-out questions"


def has(frame: "pd.DataFrame", *columns: str) -> bool:
    """Whether a frame has rows, and these columns."""
    return len(frame) > 0 and set(columns) <= set(frame.columns)
