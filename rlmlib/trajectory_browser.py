"""Any run's rollouts in JupyterLab: a list to filter and to sort, the trajectory of the chosen one, and two files side by side.

What is listed comes from rollout_files.py; the widgets only show it. Static twins: `listing` (a table) and `trajectory` (a page).
"""

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .errors import RlmError, one_line
from .notebook import shown
from .rollout_files import (
    ORDERS,
    OUTCOMES,
    Choice,
    Pair,
    cells,
    chosen,
    chosen_pairs,
    context,
    files,
    frame,
    load,
    marks,
    pair_cells,
    pairs,
    rollout,
    values,
)
from .runs import RunDir
from .tables import Table
from .viewer import Inline, summary, trajectory_html

if TYPE_CHECKING:
    import ipywidgets

PAGE = 200  # rollouts of a list
LINES = 10  # of the list that are seen at once
HEIGHT = 720  # pixels of a trajectory
RIGHT = ("#", "leaf tokens", "turns")  # columns of numbers
FONT = "font: 12px/1.4 var(--jp-code-font-family, monospace) !important"  # JupyterLab's own rules may be loaded after these
STYLE = f"<style>.rlm-list select, .rlm-list pre {{ {FONT}; }} .rlm-list pre {{ margin: 0 0 0 4px; padding: 0; }}</style>"


def browse(run: RunDir, other: RunDir | None = None) -> "ipywidgets.VBox":
    """Widgets over the rollouts of a run. other: a second run whose files can be put beside its own."""
    return TrajectoryBrowser(run, other).box


def listing(found: Sequence[dict] | Sequence[Pair], page: int = 0) -> Table:
    """A page of what rollout_files.chosen or chosen_pairs gave, as a table."""
    return Table(frame(found[page * PAGE : (page + 1) * PAGE]))


def trajectory(run: RunDir, row: dict, title: str = "Trajectory", height: int = HEIGHT) -> Inline:
    """The page of one rollout, with its context where the run kept it. Raises RunError."""
    tree = rollout(row)
    page = trajectory_html(tree, [context(run, row)], title, [marks(row)[0]])
    return Inline(page, summary(tree), height)


def columns(items: Sequence[dict] | Sequence[Pair], first: int = 1) -> list[str]:
    """The heading, then a line an item, in columns as wide as they need to be. first: number of items[0].

    Blanks are no-break spaces, which a browser keeps.
    """
    numbered = [{"#": n, **(pair_cells(i) if isinstance(i, tuple) else cells(i))} for n, i in enumerate(items, first)]
    if not numbered:
        return [""]
    table = [list(numbered[0]), *([f"{v:,}" if isinstance(v, int) else v for v in row.values()] for row in numbered)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    sides = [str.rjust if name in RIGHT else str.ljust for name in table[0]]
    rows = (zip(sides, row, widths, strict=True) for row in table)
    return ["  ".join(side(text, width) for side, text, width in row).rstrip().replace(" ", "\u00a0") for row in rows]


class TrajectoryBrowser:
    """The widgets: `box`. Every control calls `reload` (another file) or `refresh` (another choice among its rows)."""

    def __init__(self, run: RunDir, other: RunDir | None = None):
        import ipywidgets as w

        self.run, self.other = run, other
        self.rows: Sequence[dict] | Sequence[Pair] = []  # of the file, or pairs of two files
        self.found: Sequence[dict] | Sequence[Pair] = []  # those chosen, in order
        self.page = 0
        self._busy = False
        self._make(w)
        self.reload()

    def _make(self, w):
        wide = {"layout": w.Layout(width="auto"), "style": {"description_width": "initial"}}
        self.file = w.Dropdown(description="rollouts", **wide)
        self.beside = w.Dropdown(description="beside", **wide)
        self.outcome = w.Dropdown(options=_any(OUTCOMES), description="outcome", **wide)
        self.after = w.Dropdown(options=_any(OUTCOMES), description="then", **wide)
        self.filters = {key: w.Dropdown(options=_any([]), description=key, **wide) for key in ("family", "task", "split", "depth")}
        self.leaf = w.Dropdown(options=[("any", None), ("asked", True), ("not asked", False)], description="leaf", **wide)
        self.text = w.Text(placeholder="in question or answers", description="search", continuous_update=False, **wide)
        self.order = w.Dropdown(options=list(ORDERS), description="sort by", **wide)
        self.down = w.Checkbox(description="largest first", indent=False, **wide)
        self.again = w.Button(icon="refresh", tooltip="read the files again", layout=w.Layout(width="40px"))
        self.back, self.forth = (w.Button(icon=f"arrow-{side}", layout=w.Layout(width="40px")) for side in ("left", "right"))
        self.count, self.head, self.note = w.HTML(), w.HTML(), w.HTML()
        self.list = w.Select(rows=LINES, layout=w.Layout(width="auto"))
        self.panes = [w.HTML(layout=w.Layout(flex="1 1 0", min_width="0")) for _ in range(2)]
        listed = w.VBox([self.head, self.list], layout=w.Layout(overflow="hidden"))
        listed.add_class("rlm-list")
        flow = w.Layout(flex_flow="row wrap")
        choice = [self.outcome, self.after, *self.filters.values(), self.leaf, self.text]
        self.box = w.VBox(
            [
                w.HTML(STYLE),
                w.HBox([self.file, self.beside, self.again, self.order, self.down], layout=flow),
                w.HBox(choice, layout=flow),
                w.HBox([self.back, self.forth, self.count], layout=flow),
                self.note,
                listed,
                w.HBox(self.panes),
            ]
        )
        for control in (self.file, self.beside):
            control.observe(lambda _: self.reload(), "value")
        for control in (*choice, self.order, self.down):
            control.observe(lambda _: self.refresh(), "value")
        self.list.observe(lambda _: self.show(), "index")
        self.again.on_click(lambda _: self.reload())
        self.back.on_click(lambda _: self.refresh(self.page - 1))
        self.forth.on_click(lambda _: self.refresh(self.page + 1))

    def reload(self):
        """Read the chosen files again, and offer what they hold."""
        if self._busy:
            return
        self._busy, self.rows, told = True, [], ""
        names = files(self.run)
        others = [(f"{shown(self.other.path)}: {name}", (self.other, name)) for name in files(self.other)] if self.other else []
        _offer(self.file, [(name, name) for name in names])
        _offer(self.beside, [("nothing", None), *((name, (self.run, name)) for name in names), *others])
        try:
            self.rows = load(self.run, self.file.value) if names else []
            told = "" if names else "No rollouts yet: train or evaluate first, then read again."
            if self.beside.value:
                self.rows = pairs(self.rows, load(*self.beside.value))
                told = "" if self.rows else "The two files have no question in common."
        except RlmError as error:
            told = one_line(error)
        first = [pair[0] for pair in self.rows] if self.beside.value else self.rows
        for key, control in self.filters.items():
            _offer(control, _any(values(first, key)))
        self.after.disabled = not self.beside.value
        self.note.value, self._busy = html.escape(told), False
        self.refresh()

    def refresh(self, page: int = 0):
        """List a page of the rollouts that the controls choose."""
        if self._busy:
            return
        names = {key: control.value for key, control in self.filters.items()}
        choice = Choice(outcome=self.outcome.value or "", leaf=self.leaf.value, text=self.text.value.strip(), **_blank(names))
        order = (self.order.value, self.down.value)
        if self.beside.value:
            self.found = chosen_pairs(self.rows, choice, self.after.value or "", *order)
        else:
            self.found = chosen(self.rows, choice, *order)
        last = max(0, (len(self.found) - 1) // PAGE)
        self.page = min(max(0, page), last)
        self.back.disabled, self.forth.disabled = self.page == 0, self.page == last
        begin = self.page * PAGE
        head, *lines = columns(self.found[begin : begin + PAGE], begin + 1)
        what = "pairs" if self.beside.value else "rollouts"
        reach = f"{what} {begin + 1} to {begin + len(lines)} of {len(self.found)}" if lines else f"no {what}"
        self.count.value = f"{reach} that match, {len(self.rows)} in all"
        self.head.value = f"<pre>{html.escape(head)}</pre>"
        self._busy = True
        _offer(self.list, list(zip(lines, range(begin, begin + len(lines)), strict=True)))
        self.list.index, self._busy = 0 if lines else None, False
        self.show()

    def show(self):
        """The trajectory of the chosen line, or the two of a pair side by side."""
        if self._busy:
            return
        place = self.list.value
        item = None if place is None else self.found[place]
        if isinstance(item, tuple):
            run, name = self.beside.value
            parts = [(self.run, self.file.value, item[0]), (run, name, item[1])]
        else:
            parts = [(self.run, self.file.value, item)] if item else []
        for pane, part in zip(self.panes, [*parts, None, None], strict=False):
            pane.layout.display = None if part else "none"
            pane.value = self._page(number=place + 1, part=part) if part else ""

    def _page(self, number: int, part: tuple[RunDir, str, dict]) -> str:
        run, name, row = part
        where = name if run is self.run else f"{shown(run.path)}: {name}"
        try:
            return trajectory(run, row, f"{number}. {', '.join(marks(row))}; gold {row['gold']}; {where}")._repr_html_()
        except RlmError as error:
            return html.escape(one_line(error))


def _any(options: Sequence) -> list[tuple[str, object]]:
    return [("any", None), *((str(value), value) for value in options)]


def _offer(control, options: list[tuple[str, object]]):
    """New options for a control; its value stays where it is still offered."""
    offered = [value for _, value in options]
    place = offered.index(control.value) if control.value in offered else 0
    control.options = options
    control.index = place if options else None


def _blank(names: dict) -> dict:
    """`any` as Choice says it: None for a number, an empty word for the others."""
    return {key: value if key == "depth" else value or "" for key, value in names.items()}
