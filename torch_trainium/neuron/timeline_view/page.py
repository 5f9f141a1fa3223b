"""The report: one HTML page that needs nothing but itself."""

from os import PathLike
from pathlib import Path

from torch_trainium.neuron.timeline_view import sections
from torch_trainium.neuron.timeline_view.markup import Markup, element
from torch_trainium.neuron.timeline_view.records import TimelineSnapshot
from torch_trainium.neuron.timeline_view.roofline import Peaks
from torch_trainium.neuron.timeline_view.view import View

_HERE = Path(__file__).parent

# Nothing may be loaded from anywhere, should a string ever escape its escaping.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def write_report(
    snapshot: TimelineSnapshot,
    path: str | PathLike[str],
    peaks: Peaks,
    *,
    title: str,
    steps: int = 1,
) -> None:
    """Write `report_page` of the same arguments to `path`."""
    text = report_page(snapshot, peaks, title=title, steps=steps)
    # A file name, and so a title or a line, may hold bytes that are no text.
    Path(path).write_text(text, encoding="utf-8", errors="backslashreplace")


def report_page(snapshot: TimelineSnapshot, peaks: Peaks, *, title: str, steps: int = 1) -> str:
    """The page for a scope of `steps` equal steps, on cores that reach `peaks` at most.

    The same snapshot gives the same page. Raises ValueError unless `steps` is positive.
    """
    if steps < 1:
        raise ValueError(f"steps={steps} is not valid: a report is about one step or more")
    view = View(snapshot, peaks, title, steps)
    head = [
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        Markup('<link rel="icon" href="data:,">'),
        element("title", f"{title} on {snapshot.instance}"),
        element("style", _asset("page.css")),
    ]
    body = [
        sections.masthead(view),
        element("main", [section(view) for section in sections.SECTIONS]),
        sections.footer(view),
        element("div", id="tip", role="tooltip", hidden=True),
        element("script", _asset("page.js")),
    ]
    html = element(
        "html", [element("head", head), element("body", body)], lang="en", data_theme="auto"
    )
    return f"<!DOCTYPE html>\n{html}\n"


def _asset(name: str) -> Markup:
    return Markup((_HERE / name).read_text(encoding="utf-8"))
