"""Sequence numbers in AWS's 56-digit layout, as pure arithmetic.

A number is 188 bits, read as hexadecimal digits from the left:

    2 | shard's creation, seconds (9) | shard (1) | index (16) | 0 | shard (8) | seconds (9) | shard (1) | 2

so numbers of one shard grow with the index, and a child's numbers are above its parents' because it was
created in a later second. Source: the layout that kinesalite decoded from AWS's answers (observed 2014-2020).
"""

from __future__ import annotations

from dataclasses import dataclass

_VERSION = 2
_INDEX_SHIFT = 4 * 20
_INDEX_STEP = 1 << _INDEX_SHIFT
_INDEX_MASK = (1 << 64) - 1
MAX_INDEX = 0x7FFF_FFFF_FFFF_FFFF


class InvalidSequence(ValueError):
    """The text is not a sequence number."""


@dataclass(frozen=True, slots=True)
class SequenceBase:
    """The part of its sequence numbers that a shard keeps for life."""

    created_s: int
    shard_number: int

    def first_of(self, index: int, now_ms: int) -> int:
        """Return the number of the record `index`, arrived at `now_ms`; add STEP for each next one."""
        nibble = self.shard_number & 0xF
        value = _VERSION
        value = (value << 36) | (self.created_s & 0xF_FFFF_FFFF)
        value = (value << 4) | nibble
        value = (value << 64) | index
        value = (value << 4) | 0
        value = (value << 32) | (self.shard_number & 0xFFFF_FFFF)
        value = (value << 36) | (now_ms // 1000 & 0xF_FFFF_FFFF)
        value = (value << 4) | nibble
        return (value << 4) | _VERSION

    def text(self, index: int, now_ms: int) -> str:
        """Return one sequence number as the wire carries it."""
        return str(self.first_of(index, now_ms))


# 0 (4) + shard (32) + seconds (36) + shard (4) + version (4) bits lie to the right of the index.
STEP = 1 << (4 + 32 + 36 + 4 + 4)
assert STEP == _INDEX_STEP


@dataclass(frozen=True, slots=True)
class Sequence:
    """A sequence number's parts."""

    base: SequenceBase
    index: int
    seconds: int


def parse(text: str) -> Sequence:
    """Return a number's parts. Raises InvalidSequence."""
    if not text.isascii() or not text.isdigit() or len(text) > 129:
        raise InvalidSequence(text)
    value = int(text)
    if value.bit_length() != 186 or value & 0xF != _VERSION or value >> 184 != _VERSION:
        raise InvalidSequence(text)
    shard_number = value >> 44 & 0xFFFF_FFFF
    if value >> 4 & 0xF != shard_number & 0xF or value >> 144 & 0xF != shard_number & 0xF:
        raise InvalidSequence(text)
    base = SequenceBase(created_s=value >> 148 & 0xF_FFFF_FFFF, shard_number=shard_number)
    return Sequence(base, value >> _INDEX_SHIFT & _INDEX_MASK, value >> 8 & 0xF_FFFF_FFFF)
