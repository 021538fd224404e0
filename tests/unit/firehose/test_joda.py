"""Timestamps by Joda-Time's patterns."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from headrace.aws.calls.errors import AwsError
from headrace.services.firehose.serde import build_reader, check_pattern


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss.SSSZ", "2013-01-05T17:04:03.000+0000"),
        ("EEE, dd MMM yyyy hh:mm:ss a", "Sat, 05 Jan 2013 05:04:03 PM"),
        ("dd/MM/yy 'at' HHmmss", "05/01/13 at 170403"),
    ],
)
def test_a_text_is_read_by_its_pattern(pattern: str, text: str) -> None:
    assert build_reader(pattern)(text) == datetime(2013, 1, 5, 17, 4, 3)


def test_a_text_that_does_not_fit_is_none() -> None:
    assert build_reader("yyyy-MM-dd")("2013-02-30") is None
    assert build_reader("yyyy-MM-dd")("yesterday") is None


@pytest.mark.parametrize("pattern", ["E'a'" * 40, "yyyy yyyy", "qq"])
def test_a_part_may_be_there_once_so_that_no_text_is_slow(pattern: str) -> None:
    with pytest.raises(AwsError, match="Invalid timestamp format"):
        check_pattern(pattern)


def test_a_zone_moves_the_time() -> None:
    read = build_reader("yyyy-MM-dd HH:mm Z")("2013-01-05 17:04 +01:00")
    assert read == datetime(2013, 1, 5, 16, 4, tzinfo=UTC).replace(tzinfo=None)
