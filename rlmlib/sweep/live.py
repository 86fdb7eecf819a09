"""The status table while a sweep runs: rich in a terminal, a widget in JupyterLab, lines elsewhere."""

import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..tables import Table
from ..wording import duration, share, tokens
from .states import State, count

if TYPE_CHECKING:
    import pandas as pd

CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x1f\x7f-\x9f]")  # colours, and what else would move a terminal's cursor
HEADINGS = ("run", "state", "step", "right", "leaf tokens", "left", "reason")


def cells(state: State) -> tuple[str, ...]:
    """A row of the table."""
    step = f"{state.phase} {state.done}/{state.total}" if state.total else ""
    right = "" if state.correct is None else share(state.correct)
    spent = "" if state.tokens is None else tokens(state.tokens)
    left = "" if state.eta_s is None else duration(state.eta_s)
    return state.name, state.state, step, right, spent, left, CONTROL.sub("", state.reason)


def summary(states: Sequence[State]) -> str:
    return ", ".join(f"{number} {name}" for name, number in count(list(states)).items())


def state_table(states: Sequence[State]) -> "pd.DataFrame":
    """The table as a frame."""
    import pandas as pd

    return pd.DataFrame([cells(state) for state in states], columns=list(HEADINGS))


class Lines:
    """A line each time a run changes its state: for a log file."""

    def __init__(self, write: Callable[[str], None] = print):
        self._write, self._known = write, {}

    def __call__(self, states: Sequence[State]):
        for state in states:
            if self._known.get(state.name, "queued") != state.state:
                _, name, _, right, *_, reason = cells(state)
                self._write(f"{state.name}: {', '.join(filter(None, (name, right and f'{right} right', reason)))}")
            self._known[state.name] = state.state

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Terminal:
    """The table, drawn in place by rich."""

    def __init__(self):
        from rich.live import Live

        self._live = Live(refresh_per_second=2)

    def __call__(self, states: Sequence[State]):
        self._live.update(table(states))

    def __enter__(self):
        self._live.__enter__()
        return self

    def __exit__(self, *error):
        self._live.__exit__(*error)


def table(states: Sequence[State]):
    """A rich table."""
    from rich import table as rich_table
    from rich.markup import escape

    drawn = rich_table.Table(*HEADINGS, title=summary(states))
    for state in states:
        drawn.add_row(*map(escape, cells(state)))
    return drawn


class Widget:
    """The table as a widget. Static twin: the table that the notebook shows when the sweep has ended."""

    def __init__(self):
        import ipywidgets
        from IPython.display import display

        self.html = ipywidgets.HTML()
        display(self.html)

    def __call__(self, states: Sequence[State]):
        self.html.value = markup(states)  # traitlets sends it where it is another one

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def markup(states: Sequence[State]) -> str:
    """The table as HTML. What runs say is escaped."""
    return f"<p>{summary(states)}</p>{Table(state_table(states))._repr_html_()}"


def live(interactive: bool = False) -> Lines | Terminal | Widget:
    """What fits where this runs. interactive: in JupyterLab."""
    if interactive:
        return Widget()
    return Terminal() if sys.stdout.isatty() else Lines()
