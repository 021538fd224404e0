"""Builds HTML from values: `element` and `join` escape every text that is not `Html` already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(name: str, *children: object, **attributes: str) -> Html:
    """Return an element; the trailing underscore of an attribute's name and children that are None are dropped."""
    attribute_text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
    )
    return Html(f"<{name}{attribute_text}>{join(children)}</{name}>")


def join(parts: Iterable[object], separator: str = "") -> Html:
    """Return the parts joined: text that is not `Html` is escaped, None is left out."""
    texts = (
        part if isinstance(part, Html) else escape(str(part)) for part in parts if part is not None
    )
    return Html(escape(separator).join(texts))


def link(url: str, text: object) -> Html:
    """Return a link."""
    return element("a", text, href=url)


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    """Return a table; each row has a cell for each header."""
    head = element("tr", *(element("th", header) for header in headers))
    return element(
        "table", head, *(element("tr", *(element("td", cell) for cell in row)) for row in rows)
    )


def time_of(time_ms: int | None) -> Html:
    """Return a time for people, in UTC; empty for None."""
    if time_ms is None:
        return Html()
    return element("time", f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}")


def duration_of(from_ms: int | None, to_ms: int | None) -> Html:
    """Return a duration as text for people; empty when either time is None."""
    if from_ms is None or to_ms is None:
        return Html()
    seconds = max(0, to_ms - from_ms) / 1000
    if seconds < 60:
        return element("time", f"{seconds:.1f} s")
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return element("time", f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s")


def iso_time(time_ms: int | None) -> str | None:
    """Return a time in ISO 8601, in UTC; None for None."""
    if time_ms is None:
        return None
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
