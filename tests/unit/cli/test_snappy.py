"""Snappy in redrive: what Firehose compressed is read back, and damage is said."""

from __future__ import annotations

import pytest

from headrace.deliveries.redrive_records import Unreadable, lines_of
from headrace.services.firehose.output import compress_body

LINES = b"".join(b'{"n":%d,"text":"%s"}\n' % (number, b"word " * 20) for number in range(8000))


@pytest.mark.parametrize("kind", ["Snappy", "HADOOP_SNAPPY"])
def test_a_backup_in_snappy_is_read_line_by_line(kind: str):
    body, _ = compress_body(LINES, kind, "k")
    found = lines_of("in/k.snappy", body, backup=True)
    assert b"".join(line.data + b"\n" for line in found) == LINES


@pytest.mark.parametrize("kind", ["Snappy", "HADOOP_SNAPPY"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "noise", "endless"])
def test_damage_is_one_sentence(kind: str, damage: str):
    body, _ = compress_body(LINES, kind, "k")
    bad = {
        "cut": body[:-5],
        "flipped": body[:20] + bytes([body[20] ^ 0xFF]) + body[21:40] + b"\xff" * 40 + body[80:],
        "noise": b"no snappy at all, but text",
        "endless": body[:16] + b"\xff" * 8 if kind == "Snappy" else b"\xff" * 12,
    }[damage]
    with pytest.raises(Unreadable, match=r"in/k\.snappy cannot be decompressed"):
        lines_of("in/k.snappy", bad, backup=True)
