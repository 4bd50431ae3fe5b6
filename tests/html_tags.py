"""What some HTML holds: its tags, attributes and text; and the check that it is harmless."""

from __future__ import annotations

import html.parser
import xml.etree.ElementTree as ET

HARMLESS = {"br", "caption", "dd", "div", "dl", "dt", "span", "table", "tbody", "td", "th", "thead", "tr"}


class Tags(html.parser.HTMLParser):
    """Tags, attributes and text of some HTML."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        """Note text."""
        self.text += data + "\n"


def harmless(shown: str) -> Tags:
    """Read HTML that must nest, do nothing, fetch nothing and hold nothing invisible."""
    ET.fromstring(shown.replace("<br>", "<br/>"))
    found = Tags(shown)
    assert set(found.tags) <= HARMLESS
    assert found.attributes <= {"class", "style", "scope"}
    assert "url(" not in shown
    assert all(c.isprintable() for c in shown)
    return found
