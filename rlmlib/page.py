"""What the pages of reports share: templates, charts with their twins, texts made safe. A page is one file that opens offline."""

import json
import re
from collections.abc import Iterable
from pathlib import Path

from . import viewer
from .charts import Chart
from .drawing import CONFIG
from .wording import tokens

TABLE_ROWS = 200  # of a chart's numbers in the page; the CSV has all
TEXT_HEAD, TEXT_TAIL = 3000, 1000  # characters of a long reply that are shown


def render(template: str, **values) -> str:
    """A page from a template of rlmlib/templates. All values are escaped, unless they are markupsafe.Markup."""
    return _environment().get_template(template).render(**values)


def visible(text) -> str:
    """Text for a page: characters that do not show as escapes, a long middle left out with its length."""
    text = viewer.visible("" if text is None else str(text))
    hidden = len(text) - TEXT_HEAD - TEXT_TAIL
    if hidden <= 0:
        return text
    return f"{text[:TEXT_HEAD]}\n[... {hidden:,} characters are not shown ...]\n{text[-TEXT_TAIL:]}"


def _environment():
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"visible": visible, "tokens": tokens, "cell": cell}
    return environment


def cell(value) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:.4g}" if abs(value) < 10_000 else f"{value:,.0f}"
    return str(value)


def _inert(script: str) -> str:
    """The same program, without text that reads as an address or ends its element: in JavaScript literals \\/ is /."""
    return re.sub(r"(https?:)//", r"\1\\/\\/", script).replace("</script", "<\\/script")


def view(chart: Chart, interactive: bool = True) -> dict:
    """A chart as charts.html.j2 shows it."""
    from markupsafe import Markup

    shown = chart.frame.head(TABLE_ROWS)
    return {
        "name": chart.name,
        "title": chart.title,
        "reading": chart.reading,
        "interactive": interactive,
        "svg": Markup(re.sub(r' xmlns(:\w+)?="[^"]*"', "", chart.svg)),  # HTML knows the namespaces
        "height": chart.figure.layout.height if interactive else 0,
        "columns": list(shown.columns),
        "rows": shown.to_numpy(dtype=object).tolist(),
        "hidden": len(chart.frame) - len(shown),
    }


def interactive_parts(pictures: Iterable[Chart]) -> dict:
    """{plotly_js, specs}: Plotly, once, and what it draws."""
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    specs = {chart.name: json.loads(chart.figure.to_json()) for chart in pictures}
    for spec in specs.values():  # the page's heading says it
        spec["layout"]["margin"]["t"] = 60
        del spec["layout"]["title"]
    figures = json.dumps({"figures": specs, "config": CONFIG}).replace("<", "\\u003c")
    return {"plotly_js": Markup(_inert(get_plotlyjs())) if specs else "", "specs": Markup(figures)}


def settings(section, prefix: str = ""):
    """(dotted key, value, description) of every parameter."""
    from pydantic import BaseModel

    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            yield from settings(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", json.dumps(value), field.description or ""
