"""Two renderers for one description of a picture: interactive Plotly, and a static SVG by matplotlib.

A chart is a list of panels and a panel a list of marks, so the static twin cannot show other
numbers than the interactive figure.
"""

from .plotly_figure import CONFIG, plotly_figure
from .svg_figure import static_png, static_svg

__all__ = ["CONFIG", "plotly_figure", "static_png", "static_svg"]
