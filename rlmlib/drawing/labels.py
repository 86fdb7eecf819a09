"""Where the texts of a panel stand so that none lies on another: names of points around them, names of lines at their ends.

All positions are pixels from the lower left corner of the panel. Pure functions; both renderers ask them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .axes import x_ends, y_ends
from .panels import Mark, Panel

FONT = 12  # pixels
GAPS = (8, 13, 20, 29, 40, 54, 70, 90, 115)  # between a point and its text
DIRECTIONS = 16
LABEL, POINT, INTERVAL, LINE, OUTSIDE = 60.0, 25.0, 5.0, 4.0, 200.0  # what a square pixel covered costs
SWEEPS = 30
LEADER = 14  # pixels; a text further off is joined to its point by a line
SAMPLES = 40  # boxes that a line between two points is covered with


@dataclass(frozen=True)
class Placed:
    """A text, the point it names (in data), and where its centre is from there (pixels, y upwards)."""

    text: str
    x: float
    y: float
    dx: float
    dy: float
    mark: Mark
    leader: bool


def text_size(text: str, font: float = FONT) -> tuple[float, float]:
    """Width and height in pixels, on the safe side for a sans-serif."""
    lines = text.split("\n")
    return 0.56 * font * max(map(len, lines)) + 4, 1.25 * font * len(lines)


def spread_along(wanted: Sequence[float], size: float, low: float, high: float) -> list[float]:
    """Centres as near to the wanted ones as can be, in their order, `size` apart and within low..high where there is room.

    Least squares by pooling neighbours that would overlap (as in isotonic regression).
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    blocks: list[list[float]] = []  # [sum of wanted place of the first, how many]
    for rank, i in enumerate(order):
        blocks.append([wanted[i] - rank * size, 1])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            total, number = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += number
    firsts = [total / number for total, number in blocks for _ in range(int(number))]
    most = max(low, high - (len(order) - 1) * size)
    found = [0.0] * len(order)
    for rank, i in enumerate(order):
        found[i] = min(max(firsts[rank], low), most) + rank * size
    return found


def place(
    anchors: Sequence[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
    bounds: tuple[float, float],
    obstacles: np.ndarray,
    prices: np.ndarray,
) -> list[tuple[float, float]]:
    """Centres of texts near their anchors. obstacles: [n, 4] boxes (left, bottom, right, top); prices: [n] of a square pixel of each.

    Each text in turn takes the cheapest of its candidates, given the others, until none moves.
    """
    boxes = [_candidates(anchor, size) for anchor, size in zip(anchors, sizes, strict=True)]
    leaders = [_leaders(b, anchor) for b, anchor in zip(boxes, anchors, strict=True)]
    fixed = [
        _fixed_cost(b, anchor, bounds, obstacles, prices) + _crossed(line, obstacles, prices)
        for b, line, anchor in zip(boxes, leaders, anchors, strict=True)
    ]
    chosen = [int(np.argmin(cost)) for cost in fixed]
    for _ in range(SWEEPS):
        before = list(chosen)
        for i, candidates in enumerate(boxes):
            others = np.array([boxes[j][chosen[j]] for j in range(len(boxes)) if j != i]).reshape(-1, 4)
            lines = np.array([leaders[j][chosen[j]] for j in range(len(boxes)) if j != i]).reshape(-1, 4)
            covered = _overlap(candidates, others).sum(1) + _overlap(candidates, lines).sum(1)
            crossed = _crossed(leaders[i], others, np.full(len(others), LABEL))
            chosen[i] = int(np.argmin(fixed[i] + LABEL * covered + crossed))
        if chosen == before:
            break
    picked = [box[number] for box, number in zip(boxes, chosen, strict=True)]
    return [((b[0] + b[2]) / 2, (b[1] + b[3]) / 2) for b in picked]


def _candidates(anchor: tuple[float, float], size: tuple[float, float]) -> np.ndarray:
    """Boxes [candidates, 4] in rings around the anchor; in the first ring, beside, above and below come first."""
    angles = [2 * math.pi * i / DIRECTIONS for i in range(DIRECTIONS)]
    centres = [
        (anchor[0] + math.cos(a) * (size[0] / 2 + gap), anchor[1] + math.sin(a) * (size[1] / 2 + gap)) for gap in GAPS for a in angles
    ]
    return np.array([(x - size[0] / 2, y - size[1] / 2, x + size[0] / 2, y + size[1] / 2) for x, y in centres])


def _leaders(boxes: np.ndarray, anchor: tuple[float, float]) -> np.ndarray:
    """Small boxes [candidates, 5, 4] along the way from a point to each box; near boxes need no line, theirs are empty."""
    nearest = np.stack([np.clip(anchor[0], boxes[:, 0], boxes[:, 2]), np.clip(anchor[1], boxes[:, 1], boxes[:, 3])], axis=1)
    way = nearest - np.array(anchor)  # [candidates, 2]
    half = np.where(np.hypot(way[:, 0], way[:, 1]) > LEADER, 1.5, 0.0)[:, None, None]
    spots = np.array(anchor) + way[:, None, :] * np.linspace(0.35, 0.95, 5)[None, :, None]
    return np.concatenate([spots - half, spots + half], axis=2)


def _crossed(leaders: np.ndarray, boxes: np.ndarray, prices: np.ndarray) -> np.ndarray:
    """What it costs [candidates] that lines [candidates, 5, 4] run over boxes [n, 4]."""
    if not len(boxes):
        return np.zeros(len(leaders))
    return (_overlap(leaders.reshape(-1, 4), boxes) @ prices).reshape(len(leaders), -1).sum(1)


def _fixed_cost(boxes, anchor, bounds, obstacles, prices) -> np.ndarray:
    """Cost of each box whatever the other texts do: what it covers, what of it is outside, how far it is from its point."""
    covered = _overlap(boxes, obstacles) @ prices if len(obstacles) else np.zeros(len(boxes))
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    outside = area - _overlap(boxes, np.array([[0, 0, *bounds]]))[:, 0]
    gap_x = np.maximum(0, np.maximum(boxes[:, 0] - anchor[0], anchor[0] - boxes[:, 2]))
    gap_y = np.maximum(0, np.maximum(boxes[:, 1] - anchor[1], anchor[1] - boxes[:, 3]))
    return covered + OUTSIDE * outside + 6.0 * np.hypot(gap_x, gap_y)


def _overlap(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Areas [n, m] that boxes [n, 4] and [m, 4] share."""
    width = np.minimum(first[:, None, 2], second[None, :, 2]) - np.maximum(first[:, None, 0], second[None, :, 0])
    height = np.minimum(first[:, None, 3], second[None, :, 3]) - np.maximum(first[:, None, 1], second[None, :, 1])
    return np.maximum(0, width) * np.maximum(0, height)


class Pixels:
    """Data to pixels of a panel of a size, by the limits that both renderers use."""

    def __init__(self, panel: Panel, width: float, height: float):
        self.width, self.height = width, height
        self.x_log, self.y_log = panel.log_x, panel.log_y
        self.x_ends, self.y_ends = x_ends(panel), y_ends(panel)

    def x(self, value: float) -> float:
        return self.width * _share(value, self.x_ends, self.x_log)

    def y(self, value: float) -> float:
        return self.height * _share(value, self.y_ends, self.y_log)


def _share(value: float, ends: tuple[float, float], log: bool) -> float:
    low, high = map(math.log10, ends) if log else ends
    return ((math.log10(value) if log else value) - low) / (high - low)


def placed(panel: Panel, width: float, height: float) -> list[Placed]:
    """The texts of the points of a panel that spreads them, in a panel of width x height pixels."""
    to = Pixels(panel, width, height)
    named = [
        (text, mark, x, y)
        for mark in panel.marks
        if mark.kind == "points"
        for text, x, y in zip(mark.texts or [], mark.x, mark.y, strict=False)
        if text
    ]
    anchors = [(to.x(x), to.y(y)) for _, _, x, y in named]
    boxes, prices = _obstacles(panel, to)
    centres = place(anchors, [text_size(text) for text, *_ in named], (width, height), boxes, prices)
    return [
        Placed(text, x, y, cx - ax, cy - ay, mark, _far(text, cx - ax, cy - ay))
        for (text, mark, x, y), (ax, ay), (cx, cy) in zip(named, anchors, centres, strict=True)
    ]


def _far(text: str, dx: float, dy: float) -> bool:
    width, height = text_size(text)
    return math.hypot(max(0, abs(dx) - width / 2), max(0, abs(dy) - height / 2)) > LEADER


def _obstacles(panel: Panel, to: Pixels) -> tuple[np.ndarray, np.ndarray]:
    """Boxes [n, 4] that texts should not cover, and what a square pixel of each costs [n]."""
    found: list[tuple[tuple[float, float, float, float], float]] = []
    for mark in panel.marks:
        if mark.kind == "points":
            found += _around_points(mark, to)
        elif mark.kind == "horizontal":
            found += [((0, to.y(y) - 1.5, to.width, to.y(y) + 1.5), LINE) for y in mark.y]
        elif mark.kind == "vertical":
            found += [((to.x(x) - 1.5, 0, to.x(x) + 1.5, to.height), LINE) for x in mark.x]
        elif mark.kind in ("line", "step") and not mark.light:
            found += [(box, LINE) for box in _along(mark, to)]
    return np.array([box for box, _ in found]).reshape(-1, 4), np.array([price for _, price in found])


def _around_points(mark: Mark, to: Pixels) -> list:
    """Boxes of points and of their intervals, with their prices."""
    found, r = [], mark.size / 2 + 2
    spots = [(to.x(x), to.y(y)) for x, y in zip(mark.x, mark.y, strict=True)]
    found += [((x - r, y - r, x + r, y + r), POINT) for x, y in spots]
    if mark.low is not None:
        reached = zip(spots, mark.low, mark.high, strict=True)
        found += [((x - 1.5, to.y(low), x + 1.5, to.y(high)), INTERVAL) for (x, _), low, high in reached]
    if mark.x_low is not None:
        reached = zip(spots, mark.x_low, mark.x_high, strict=True)
        found += [((to.x(low), y - 1.5, to.x(high), y + 1.5), INTERVAL) for (_, y), low, high in reached]
    return found


def _along(mark: Mark, to: Pixels) -> list[tuple[float, float, float, float]]:
    """Small boxes that cover a line."""
    corners = [(to.x(x), to.y(y)) for x, y in zip(mark.x, mark.y, strict=True) if y == y]
    if mark.kind == "step":
        corners = [corner for a, b in zip(corners, corners[1:], strict=False) for corner in (a, (b[0], a[1]))] + corners[-1:]
    boxes = []
    for (ax, ay), (bx, by) in zip(corners, corners[1:], strict=False):
        pieces = max(1, min(SAMPLES, round(math.hypot(bx - ax, by - ay) / 6)))
        spots = [(ax + (bx - ax) * (i + 0.5) / pieces, ay + (by - ay) * (i + 0.5) / pieces) for i in range(pieces)]
        boxes += [(x - 3, y - 3, x + 3, y + 3) for x, y in spots]
    return boxes


def line_ends(panel: Panel, height: float, font: float = FONT) -> list[tuple[Mark, float]]:
    """Each mark with a name at its end, and the share of the panel's height at which the name stands."""
    named = [mark for mark in panel.marks if mark.end and len(mark.y)]
    to = Pixels(panel, 1.0, height)
    wanted = [to.y(_last(mark)) for mark in named]
    return [(mark, y / height) for mark, y in zip(named, spread_along(wanted, 1.2 * font, 0.5 * font, height), strict=True)]


def _last(mark: Mark) -> float:
    """The last y of a line that is a number."""
    return next((float(y) for y in reversed(list(mark.y)) if y == y), math.nan)
