"""What moves in JupyterLab. Each view has a static twin (a chart or a table) for every other place.

The logic is in plain functions; the widgets only read sliders and show what those return.
"""

import time

REDRAW_S = 2.0


class LiveDashboard:
    """One output that shows the newest training curves. Static twin: charts.training_dynamics in the report."""

    def __init__(self, total_steps: int):
        self.total_steps = total_steps
        self.rows: list[dict] = []
        self._handle = None
        self._drawn = 0.0

    def update(self, row: dict):
        """Take a metrics row; redraw at most every REDRAW_S seconds, and always at the last step."""
        self.rows.append(row)
        last = row["step"] + 1 >= self.total_steps
        if _in_kernel() and (last or time.monotonic() - self._drawn >= REDRAW_S):
            self._draw()
            self._drawn = time.monotonic()

    def _draw(self):
        from IPython.display import SVG, display

        picture = SVG(self.picture())
        if self._handle is None:
            self._handle = display(picture, display_id=True)
        else:
            self._handle.update(picture)

    def picture(self) -> str:
        """The curves so far, as one <svg>."""
        import pandas as pd

        from .charts import training_dynamics

        return training_dynamics(pd.DataFrame(self.rows)).svg


def live_dashboard(total_steps: int) -> LiveDashboard:
    """For the training loop's `after_step`; does nothing visible outside a Jupyter kernel."""
    return LiveDashboard(total_steps)


def _in_kernel() -> bool:
    import sys

    if "IPython" not in sys.modules:
        return False
    return getattr(sys.modules["IPython"].get_ipython(), "kernel", None) is not None
