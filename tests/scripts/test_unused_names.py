"""What scripts.unused_names calls unused, and what it leaves alone."""

from __future__ import annotations

from scripts.unused_names import read, unused

ONE = """
import asyncio
import logging
from functools import cache
from click import command

log = logging.getLogger(__name__)
LIMIT = 3

@cache
def counted():
    pass

@command()
def started():
    pass

class Point:
    x: int
    y: int
    z: int

    def length(self):
        return self.x

    def _show_all(self):
        pass

class Protocol(asyncio.Protocol):
    def eof_received(self):
        pass
"""
TWO = """
from one import Point
import three

log = three.log

def area(point):
    match point:
        case Point(y=height):
            return log, height
"""


def names(**texts: str) -> list[str]:
    return [
        line.split(": ")[1]
        for line in unused([read(f"{name}.py", text) for name, text in texts.items()])
    ]


def test_what_nothing_uses_is_found() -> None:
    assert names(one=ONE, two=TWO) == [
        "log",  # two.log is another
        "LIMIT",
        "counted",
        "Protocol",
        "Point.z",
        "Point.length",
        "Point._show_all",
        "area",
    ]


def test_an_import_uses_a_name() -> None:
    user = "from one import LIMIT, counted as n\nimport one\nprint(one.log)"
    found = names(one=ONE, user=user)
    assert not {"log", "LIMIT", "counted"} & set(found)


def test_a_text_uses_a_method() -> None:
    found = names(one=ONE, user="""getattr(point, f"_show_{kind}"), getattr(point, "z")""")
    assert not {"Point._show_all", "Point.z"} & set(found)


def test_a_pattern_by_position_reads_all_fields() -> None:
    found = names(one=ONE, user="match point:\n    case Point(x, y, z):\n        pass")
    assert "Point.z" not in found
    assert "Point.length" in found
