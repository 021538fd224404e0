"""Random requests from botocore's model of a service: sound ones, ones with a flaw, and nonsense; seeded."""

from __future__ import annotations

import base64
import random
import string
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import cbor2
from botocore.model import ListShape, MapShape, OperationModel, Shape, StructureShape

# How often a request has a flaw, and how often an optional member is given.
FLAWED = 0.6
GIVEN = 0.5
ODD_TEXTS = (
    *("", " ", "a" * 1025, "a b", "é", "日本", "\x00", "\ud7ff", "😀", "-", "..", "'", '"', "\\"),
    *(
        "null",
        "0",
        "-1",
        "1e3",
        "arn:",
        "arn:aws:kinesis:us-east-1:000000000000:stream/",
        "$",
        "%s",
    ),
)
ODD_NUMBERS = (0, -1, 1, 2**31 - 1, 2**31, 2**63 - 1, -(2**63), 2**63, 10**30, 1.5, -0.0, 1e300)
ODD = (None, True, False, [], {}, [None], {"": None}, [[[]]], {"a": {"b": [1]}}, 0, "x", 3.7)

Known = Mapping[str, Callable[[random.Random], Any]]


class Requests:
    """Makes the inputs of operations.

    `known` gives sound values for members by name (such as a stream that exists): without them nearly every
    request would end at the first look-up.
    """

    def __init__(self, seed: str, known: Known) -> None:
        self.random = random.Random(seed)
        self._known = known

    def of(self, operation: OperationModel) -> Any:
        """Return an input, as values of Python (blobs as bytes, timestamps as datetimes)."""
        shape = operation.input_shape
        value: Any = {} if shape is None else self._structure(shape, 0)
        if self.random.random() < FLAWED:
            for _ in range(self.random.choice((1, 1, 2, 4))):
                value = self._flawed(value)
        return value

    def _structure(self, shape: StructureShape, depth: int) -> dict[str, Any]:
        return {
            name: self._value(member, name, depth + 1)
            for name, member in shape.members.items()
            if name in shape.required_members or self.random.random() < GIVEN
        }

    def _value(self, shape: Shape, name: str, depth: int) -> Any:
        known = self._known.get(name)
        if known is not None:
            return known(self.random)
        if isinstance(shape, StructureShape):
            return self._structure(shape, depth) if depth < 6 else {}
        if isinstance(shape, ListShape):
            least = shape.metadata.get("min", 0)
            count = least + self.random.choice((0, 1, 2, 3))
            return [self._value(shape.member, name, depth + 1) for _ in range(count)]
        if isinstance(shape, MapShape):
            return {
                self._text(shape.key): self._value(shape.value, "", depth + 1)
                for _ in range(self.random.randrange(4))
            }
        return self._scalar(shape)

    def _scalar(self, shape: Shape) -> Any:
        kind = shape.type_name
        if kind == "string":
            return self._text(shape)
        if kind in ("integer", "long"):
            least = shape.metadata.get("min", -5)
            most = shape.metadata.get("max", least + 10_000)
            return self.random.choice((least, most, self.random.randint(least, most)))
        if kind == "boolean":
            return self.random.random() < 0.5
        if kind == "blob":
            return self.random.randbytes(self.random.choice((0, 1, 2, 3, 40, 200)))
        if kind == "timestamp":
            return datetime.fromtimestamp(self.random.choice((0, 1, 1_800_000_000, 9e9)), UTC)
        return self.random.uniform(-1, 1e6)

    def _text(self, shape: Shape) -> str:
        choices = getattr(shape, "enum", None)
        if choices:
            return self.random.choice(choices)
        least = max(1, shape.metadata.get("min", 1))
        most = max(least, min(shape.metadata.get("max", 40), 40))
        count = self.random.randint(least, most)
        return "".join(self.random.choices(string.ascii_letters + string.digits + "-", k=count))

    # --- flaws --------------------------------------------------------------------------------

    def _flawed(self, value: Any) -> Any:
        """Return the value with one thing wrong somewhere inside."""
        pick = self.random.random
        if isinstance(value, dict) and value and pick() < 0.85:
            name = self.random.choice(sorted(value))
            way = self.random.randrange(6)
            if way == 0:
                return {other: item for other, item in value.items() if other != name}
            if way == 1:
                return {**value, self.random.choice(("Colour", "", name.lower())): self._odd()}
            return {**value, name: self._flawed(value[name])}
        if isinstance(value, list) and value and pick() < 0.8:
            at = self.random.randrange(len(value))
            if pick() < 0.15:
                return value * self.random.choice((2, 60))
            return [*value[:at], self._flawed(value[at]), *value[at + 1 :]]
        if isinstance(value, str) and pick() < 0.6:
            return self._flawed_text(value)
        return self._odd()

    def _flawed_text(self, text: str) -> str:
        way = self.random.randrange(5)
        if way == 0:
            return text + self.random.choice(ODD_TEXTS)
        if way == 1:
            return text[: len(text) // 2]
        if way == 2:
            return text.upper()
        if way == 3 and text:
            at = self.random.randrange(len(text))
            return text[:at] + self.random.choice(string.printable) + text[at + 1 :]
        return self.random.choice(ODD_TEXTS)

    def _odd(self) -> Any:
        return self.random.choice(
            (
                self.random.choice(ODD),
                self.random.choice(ODD_TEXTS),
                self.random.choice(ODD_NUMBERS),
            )
        )

    # --- bodies -------------------------------------------------------------------------------

    def damaged(self, body: bytes) -> bytes:
        """Return a body that is cut off, or has some bytes changed."""
        if self.random.random() < 0.5:
            return body[: self.random.randrange(len(body) + 1)]
        changed = bytearray(body)
        for _ in range(self.random.randrange(1, 4)):
            if changed:
                changed[self.random.randrange(len(changed))] = self.random.randrange(256)
        return bytes(changed)


def json_ready(value: Any) -> Any:
    """Return the value as JSON carries it: base64 text, seconds."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, dict):
        return {name: json_ready(item) for name, item in value.items()}
    if isinstance(value, list):
        return [json_ready(item) for item in value]
    return value


def cbor_ready(value: Any) -> Any:
    """Return the value as AWS's CBOR carries it: times in milliseconds under tag 1."""
    if isinstance(value, datetime):
        return cbor2.CBORTag(1, round(value.timestamp() * 1000))
    if isinstance(value, dict):
        return {name: cbor_ready(item) for name, item in value.items()}
    if isinstance(value, list):
        return [cbor_ready(item) for item in value]
    return value
