"""Absent members, times, and lists cut into pages."""

from __future__ import annotations

import base64

import pytest

from headrace.core.values import (
    BadMarker,
    get_list,
    get_mapping,
    iso_of,
    moment,
    page_of,
    parse_json,
    present,
    section,
)


def test_what_is_absent_is_empty() -> None:
    assert get_list({}, "A") == get_list({"A": None}, "A") == []
    assert get_mapping({}, "A") == get_mapping({"A": None}, "A") == {}
    assert section({}, "A", "B") == section({"A": None}, "A", "B") == {}


def test_a_section_is_no_copy() -> None:
    inner = {"C": "c"}
    assert section({"A": {"B": inner}}, "A", "B") is inner


def test_only_none_is_left_out() -> None:
    assert present({"A": None, "B": 0, "C": "", "D": []}) == {"B": 0, "C": "", "D": []}


def test_a_moment_is_aware_and_keeps_its_milliseconds() -> None:
    assert moment(1_700_000_000_123).isoformat() == "2023-11-14T22:13:20.123000+00:00"


def test_markers_lead_through_all_items() -> None:
    items, seen, marker = list(range(25)), list[int](), None
    for _ in range(3):
        page, marker = page_of(items, marker, 10)
        seen += page
    assert seen == items
    assert marker is None


def test_the_last_page_may_be_full() -> None:
    assert page_of(range(10), None, 10) == (list(range(10)), None)
    assert page_of((), None, 10) == ([], None)
    assert page_of(range(3), None, None) == ([0, 1, 2], None)


@pytest.mark.parametrize("text", ["-5", " 5", "1_0", "five", ""])
def test_a_marker_that_is_not_ours_is_refused(text: str) -> None:
    with pytest.raises(BadMarker):
        page_of(range(100), base64.b64encode(text.encode()).decode(), 10)


def test_a_marker_must_be_base64() -> None:
    for marker in ("!", "MTA", "MTA=!"):
        with pytest.raises(BadMarker):
            page_of(range(100), marker, 10)


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (1_357_016_400_250, "2013-01-01T05:00:00.250Z"),
        (1_357_016_400_003, "2013-01-01T05:00:00.003Z"),
    ],
)
def test_a_time_is_written_to_the_millisecond(time_ms: int, text: str) -> None:
    assert iso_of(time_ms) == text


@pytest.mark.parametrize("text", ["{", b"\xff", "[" * 100_000, '{"a":' * 100_000])
def test_text_that_is_no_json_or_too_deep_raises_one_error(text: str | bytes):
    with pytest.raises(ValueError):
        parse_json(text)


def test_json_is_read_with_the_options_of_the_library():
    assert parse_json('{"a": 1.5}', parse_float=str) == {"a": "1.5"}
