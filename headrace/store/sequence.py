"""Sequence numbers in AWS's 56-digit layout, as pure arithmetic.

A number is 188 bits, read as hexadecimal digits from the left:

    2 | shard's creation, seconds (9) | shard's last digit (1) | index (16) | 00 | arrival, seconds (9) | shard (8) | 2

so numbers of one shard grow with the index, and a child shard's numbers are above those of its parents because the
child was created in a later second. Observed: the number in AWS's example of a Lambda event (shardId-000000000006,
arrived 2018-12-17T22:37:30Z) has these parts; kinesalite decodes AWS's answers in the same way. AWS leaves gaps between
its indices.

Data directories of 0.1.0 also hold numbers that end `0 | shard (8) | seconds (9) | shard's last digit (1) | 2`. They
are parsed by that layout.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

_VERSION = 2
_INDEX_SHIFT = 4 * 20
_INDEX_STEP = 1 << _INDEX_SHIFT
_INDEX_MASK = (1 << 64) - 1
# By how much a clock may be set back between a shard's creation and a record: some years.
_CLOCK_GOES_BACK_S = 200_000_000
MAX_INDEX = 0x7FFF_FFFF_FFFF_FFFF
MAX_SHARD = 0x7FFF_FFFF
_FIRST = 1 << 124


class InvalidSequence(ValueError):
    """The text is not a sequence number."""


@dataclass(frozen=True, slots=True)
class SequenceBase:
    """The part that all sequence numbers of a shard have in common."""

    created_s: int
    shard_number: int

    def first_of(self, index: int, now_ms: int) -> int:
        """Return the number of the record `index` that arrived at `now_ms`; add STEP for each following record.

        A child's creation second is later than its parents', and may lie one second ahead of the clock: records that
        arrive before it get the creation second, so that no number is below the shard's first.
        """
        arrived_s = max(now_ms // 1000, self.created_s)
        nibble = self.shard_number & 0xF
        value = _VERSION
        value = (value << 36) | (self.created_s & 0xF_FFFF_FFFF)
        value = (value << 4) | nibble
        value = (value << 64) | index
        value = (value << 8) | 0
        value = (value << 36) | (arrived_s & 0xF_FFFF_FFFF)
        value = (value << 32) | (self.shard_number & 0xFFFF_FFFF)
        return (value << 4) | _VERSION

    def text(self, index: int, now_ms: int) -> str:
        """Return a sequence number as text, as requests and answers carry it."""
        return str(self.first_of(index, now_ms))


# 0 (8) + seconds (36) + shard (32) + version (4) bits lie to the right of the index.
STEP = 1 << (8 + 36 + 32 + 4)
assert STEP == _INDEX_STEP


@dataclass(frozen=True, slots=True)
class Sequence:
    """The parts of a sequence number."""

    base: SequenceBase
    index: int
    seconds: int


# Cached: a consumer that waits at the end of a shard sends the same position again and again.
@functools.lru_cache(maxsize=1_000)
def parse(text: str) -> Sequence:
    """Return a number's parts. Raises InvalidSequence."""
    if not text.isascii() or not text.isdigit() or len(text) > 129:
        raise InvalidSequence(text)
    value = int(text)
    if value.bit_length() != 186 or value & 0xF != _VERSION or value >> 184 != _VERSION:
        raise InvalidSequence(text)
    created_s = value >> 148 & 0xF_FFFF_FFFF
    index = value >> _INDEX_SHIFT & _INDEX_MASK
    digit = value >> 144 & 0xF
    shard_number, seconds = value >> 4 & 0xFFFF_FFFF, value >> 36 & 0xF_FFFF_FFFF
    # No record arrives before its shard is created. The layout of 0.1.0 has the shard's number, which is far smaller,
    # in the place of the seconds.
    if shard_number & 0xF != digit or seconds + _CLOCK_GOES_BACK_S < created_s:
        shard_number, seconds = value >> 44 & 0xFFFF_FFFF, value >> 8 & 0xF_FFFF_FFFF
        if shard_number & 0xF != digit or value >> 4 & 0xF != digit:
            raise InvalidSequence(text)
    if index > MAX_INDEX or shard_number > MAX_SHARD:
        raise InvalidSequence(text)
    return Sequence(SequenceBase(created_s, shard_number), index, seconds)


@dataclass(frozen=True, slots=True)
class FirstSequence:
    """A number of AWS's first layout, which no shard uses any more; `text` is its form in AWS's messages."""

    text: str
    created_s: int
    shard_number: int


def parse_first(text: str) -> FirstSequence | None:
    """Return a number of AWS's first layout, `1 | creation (9) | 18 digits | shard (4)`; None for others.

    The first digit may be missing. Source: kinesalite (observed).
    """
    value = int(text) if text.isascii() and text.isdigit() and len(text) <= 129 else 1 << 200
    value |= _FIRST if value < _FIRST else 0
    if value >= _FIRST << 5:
        return None
    return FirstSequence(str(value), value >> 88 & 0xF_FFFF_FFFF, value & 0xFFFF)
