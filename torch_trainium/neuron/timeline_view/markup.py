"""HTML and SVG from values, every string escaped."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape


class Markup(str):
    """Text that is HTML already; any other string is escaped where it is put into an element."""

    __slots__ = ()


Content = str | Iterable[str]


def element(tag: str, content: Content = (), **attributes: str | float | bool | None) -> Markup:
    """`<tag attributes>content</tag>`.

    Attributes that are None or False are left out, True ones have no value; underscores read
    as hyphens and a last one is dropped, so `class_` and `data_tip` can be written.
    """
    opening = "".join(_attribute(name, value) for name, value in attributes.items())
    return Markup(f"<{tag}{opening}>{join(content)}</{tag}>")


def join(content: Content) -> Markup:
    """The parts one after another, escaped unless they are markup."""
    parts = [content] if isinstance(content, str) else content
    return Markup("".join(p if isinstance(p, Markup) else escape(p) for p in parts))


def _attribute(name: str, value: str | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = name.removesuffix("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return f' {name}="{escape(text)}"'


@dataclass(frozen=True)
class Cell:
    """One cell of a table: what it shows, what it sorts by, and how long its bar is."""

    content: Content
    order: float | str | None = None
    bar: float | None = None  # of the column's width, 0 to 1

    def html(self) -> Markup:
        """The `<td>`; columns that sort by a number stand right."""
        is_number = isinstance(self.order, int | float)
        content = join(self.content)
        if self.bar is not None:
            fill = element("span", class_="fill", style=f"width:{100 * self.bar:.2f}%")
            content = join([element("span", fill, class_="bar"), element("span", content)])
        order = None if self.order is None else str(self.order)
        classes = " ".join(
            name for name, has in (("number", is_number), ("barred", self.bar is not None)) if has
        )
        return element("td", content, class_=classes or None, data_order=order)


def table(
    identity: str,
    columns: Mapping[str, str],
    rows: Iterable[Sequence[Cell]],
    *,
    sortable: bool = True,
    row_attributes: Sequence[Mapping[str, str | bool | None]] = (),
) -> Markup:
    """A table; `columns` maps each heading to an explanation, "" for none."""
    rows = [list(row) for row in rows]
    headings = [
        _heading(name, tip, sortable, bool(rows) and isinstance(rows[0][index].order, int | float))
        for index, (name, tip) in enumerate(columns.items())
    ]
    attributes = row_attributes or [{}] * len(rows)
    body = [
        element("tr", [cell.html() for cell in row], **attribute)
        for row, attribute in zip(rows, attributes, strict=True)
    ]
    return element(
        "div",
        element(
            "table",
            [element("thead", element("tr", headings)), element("tbody", body)],
            id=identity,
            class_="sortable" if sortable else None,
        ),
        class_="scroll",
    )


def _heading(name: str, tip: str, sortable: bool, is_number: bool) -> Markup:
    label = element("button", name, type="button") if sortable else join(name)
    return element(
        "th",
        label,
        scope="col",
        class_="number" if is_number else None,
        data_tip=tip or None,
        aria_description=tip or None,
    )
