"""What tests read from the page of a report: its parts by their place in the page, never its sentences."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = ("br", "circle", "hr", "img", "input", "link", "meta", "path", "polygon", "polyline", "rect")
"""Elements that have no end tag in our templates."""


@dataclass
class Element:
    """An element of a page, with what it holds in order."""

    tag: str
    attributes: dict[str, str | None] = field(default_factory=dict)
    children: "list[Element | str]" = field(default_factory=list)

    def all(self, *tags: str) -> "Iterator[Element]":
        """Yield the elements below this one, in order; only those with these tags, if any are given."""
        for child in self.children:
            if isinstance(child, Element):
                if not tags or child.tag in tags:
                    yield child
                yield from child.all(*tags)

    @property
    def text(self) -> str:
        """All text of it and below it that a reader sees, with single spaces."""
        parts = (child if isinstance(child, str) else child.text for child in self.children)
        return "" if self.tag in ("script", "style") else " ".join(" ".join(parts).split())


class ReportPage(HTMLParser):
    """A parsed page: its elements, the numbers that its charts are drawn from, and the parts of its sections."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.root = Element("")
        self._open = [self.root]
        self.feed(html)
        data = next(one for one in self.root.all("script") if one.attributes.get("id") == "data")
        self.numbers = json.loads("".join(map(str, data.children)))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element."""
        made = Element(tag, dict(attrs))
        self._open[-1].children.append(made)
        if tag not in VOID:
            self._open.append(made)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Add an element that is closed at once."""
        self._open[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """Close the innermost element, which has to have this tag."""
        assert self._open.pop().tag == tag, tag

    def handle_data(self, data: str) -> None:
        """Add text to the innermost element."""
        self._open[-1].children.append(data)

    @property
    def text(self) -> str:
        """All text that a reader sees."""
        return self.root.text

    @property
    def heading(self) -> str:
        """The heading of the page."""
        return next(self.root.all("h1")).text

    @property
    def verdict(self) -> Element:
        """The verdict; its classes are "verdict" and its state."""
        return next(one for one in self.root.all("p") if "verdict" in str(one.attributes.get("class")).split())

    @property
    def sections(self) -> dict[str | None, Element]:
        """The sections by their id."""
        return {one.attributes.get("id"): one for one in self.root.all("section")}

    def rows(self, section: str) -> list[list[str]]:
        """Return the cells of the lines of a section's tables, without headings."""
        bodies = self.sections[section].all("tbody")
        return [[cell.text for cell in line.all("th", "td")] for body in bodies for line in body.all("tr")]

    def items(self, section: str) -> list[str]:
        """Return the items of a section's lists."""
        return [item.text for item in self.sections[section].all("li")]

    def facts(self, section: str) -> dict[str, str]:
        """Return what the definition lists of a section say, by term."""
        terms, meanings = ([one.text for one in self.sections[section].all(tag)] for tag in ("dt", "dd"))
        return dict(zip(terms, meanings, strict=True))

    @property
    def checks(self) -> dict[str, str | None]:
        """The states of the checks, by question."""
        return {next(item.all("b")).text: item.attributes.get("class") for item in self.sections["trust"].all("li")}

    @property
    def command(self) -> str:
        """The command that repeats the work."""
        return next(self.sections["repeat"].all("pre")).text


def chart_of(page: ReportPage, group: str = "function", index: int = 0) -> dict:
    """Return one chart of a page as numbers, with its series by key."""
    chart = page.numbers["groups"][group][index]
    return {**chart, "series": {series["key"]: series for series in chart["series"]}}
