"""Where panels and their title stand: a grid of equal columns; a wide panel has a row of its own."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from .panels import Panel

TITLE_CHARS = 85  # of a line
ROW, ONLY_ROW = 270, 340  # pixels, of one row of several and of a single one


@dataclass(frozen=True)
class Place:
    """Row and column from 0, and how many columns it spans."""

    row: int
    column: int
    span: int


def places(panels: Sequence[Panel], columns: int) -> list[Place]:
    """A place for each panel, in reading order."""
    found, row, column = [], 0, 0
    for panel in panels:
        span = columns if panel.wide else 1
        if column and column + span > columns:
            row, column = row + 1, 0
        found.append(Place(row, column, span))
        column += span
        if column == columns:
            row, column = row + 1, 0
    return found


def row_heights(panels: Sequence[Panel], found: Sequence[Place]) -> list[float]:
    """Height of each row over that of a usual one: its tallest panel's."""
    rows = 1 + max(place.row for place in found)
    return [max(panel.height for panel, place in zip(panels, found, strict=True) if place.row == row) for row in range(rows)]


def heading(title: str) -> list[str]:
    """A title in lines; a number and its % stay together."""
    return [line.replace("\u00a0", " ") for line in textwrap.wrap(title.replace(" %", "\u00a0%"), TITLE_CHARS)]


def last_in_row(place: Place, columns: int) -> bool:
    return place.column + place.span == columns
