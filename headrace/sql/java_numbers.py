"""Reads numbers of texts as Java, and so Spark, reads them: Python takes 1_0 and inf too, and no 1.5d."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal

# What Java takes away around a text.
BLANKS = "".join(map(chr, range(33)))
_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"([+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)([fFdD]?)")
# The words for no number of digits: Java's own, those of JSON's texts, and of delimited fields in Spark.
_INFINITIES = {"Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}
_OF_JAVA = {**_INFINITIES, "NaN": math.nan, "+NaN": math.nan, "-NaN": math.nan}
OF_JSON = {**_INFINITIES, "NaN": math.nan, "INF": math.inf, "+INF": math.inf, "-INF": -math.inf}
OF_LINES = {**_OF_JAVA, "Inf": math.inf, "-Inf": -math.inf}


def read_whole(text: str) -> int | None:
    """Return a whole number, in as many digits as there are; None for a text that is none."""
    return int(text) if _WHOLE.fullmatch(text) else None


def read_decimal(text: str) -> Decimal | None:
    """Return a number as it is written; None for a text that is none."""
    match = _NUMBER.fullmatch(text)
    return None if match is None or match[2] else Decimal(match[1])


def read_double(text: str, words: Mapping[str, float]) -> float | None:
    """Return a DOUBLE, of `words` too; None for a text that is none."""
    text = text.strip(BLANKS)
    if text in words:
        return words[text]
    match = _NUMBER.fullmatch(text)
    return None if match is None else float(match[1])


def cast_double(text: str) -> float | None:
    """Return what CAST makes of a text, with the words of any letter case; None for a text that is none."""
    number = read_double(text, _OF_JAVA)
    if number is not None:
        return number
    word = text.strip(BLANKS).lower()
    infinite = word.removeprefix(word[:1]) if word[:1] in ("+", "-") else word
    if infinite in ("inf", "infinity"):
        return -math.inf if word.startswith("-") else math.inf
    return math.nan if word == "nan" else None
