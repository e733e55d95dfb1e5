"""What a test reads of a page: its elements, its texts, the columns that its scripts draw."""

import json
from html.parser import HTMLParser
from typing import Any, Final

_VOID: Final = {"meta", "link", "input", "br", "img"}


class Page(HTMLParser):
    """The elements of a page as a browser would see them; scripts and styles apart from text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.scripts: list[tuple[dict[str, str], str]] = []
        self.texts: list[str] = []
        self.open: list[tuple[str, dict[str, str]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.elements.append((tag, values))
        if tag not in _VOID:
            self.open.append((tag, values))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop()[0] == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1][0] == "script":
            self.scripts.append((self.open[-1][1], data))
        elif not self.open or self.open[-1][0] != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        """All that is read, spaces as one."""
        return " ".join(" ".join(self.texts).split())

    @property
    def charts(self) -> dict[str, Any]:
        """The columns that are drawn."""
        (text,) = [text for values, text in self.scripts if values.get("id") == "charts"]
        return json.loads(text)

    def ids(self) -> set[str]:
        return {values["id"] for _, values in self.elements if "id" in values}

    def classes(self, name: str) -> list[dict[str, str]]:
        return [values for _, values in self.elements if name in values.get("class", "").split()]
