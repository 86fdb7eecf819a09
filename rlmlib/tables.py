"""Tables in notebooks: texts on the left, numbers on the right, each heading over its column, nothing cut off."""

import html
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

DIGITS = 3  # significant ones of a column's largest number
WIDEST = "46em"  # of a text; a longer one goes on in the next line
NARROWEST = "7em"  # of a text column beside many others: else its words are broken letter by letter
CELL = "padding: 0.3em 0.7em; vertical-align: top"
TEXT = f"{CELL}; text-align: left; min-width: {NARROWEST}; max-width: {WIDEST}; white-space: pre-wrap; overflow-wrap: anywhere"
NUMBER = f"{CELL}; text-align: right; white-space: nowrap"


def brief(text: str | None, most_chars: int) -> str:
    """A text in one line; what is cut off shows as an ellipsis. None is empty."""
    line = " ".join((text or "").split())
    return line if len(line) <= most_chars else f"{line[: most_chars - 1]}…"


class Table:
    """A frame without its index, as the last value of a cell or for `display`.

    The style is written at each cell: JupyterLab drops style sheets from notebooks that it does not trust.
    """

    def __init__(self, frame: "pd.DataFrame"):
        self._columns = {str(name): _texts(frame[name]) for name in frame}

    def _repr_html_(self) -> str:
        styles = [TEXT if left else NUMBER for left, _ in self._columns.values()]
        rows = zip(*(texts for _, texts in self._columns.values()), strict=True)
        head = _row("th", self._columns, styles)
        return f"<table><thead>{head}</thead><tbody>{''.join(_row('td', row, styles) for row in rows)}</tbody></table>"

    def __repr__(self) -> str:
        import pandas as pd

        return pd.DataFrame({name: texts for name, (_, texts) in self._columns.items()}).to_string(index=False)


def _texts(column: "pd.Series") -> tuple[bool, list[str]]:
    """(whether it holds texts, its cells as texts). What is missing is empty."""
    from pandas.api import types

    if not types.is_numeric_dtype(column) or types.is_bool_dtype(column):
        return True, ["" if value is None or value != value else str(value) for value in column]
    places = 0 if types.is_integer_dtype(column) else decimals(column.abs().max())
    return False, ["" if value != value else f"{value:,.{places}f}" for value in column]


def decimals(largest: float) -> int:
    """Decimals that give `largest` DIGITS significant digits; the smaller numbers of its column have as many decimals."""
    if not largest > 0 or math.isinf(largest):
        return 0
    return max(0, DIGITS - 1 - math.floor(math.log10(largest)))


def _row(tag: str, cells, styles: list[str]) -> str:
    found = (f'<{tag} style="{style}">{html.escape(cell)}</{tag}>' for cell, style in zip(cells, styles, strict=True))
    return f"<tr>{''.join(found)}</tr>"
