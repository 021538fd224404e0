from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from logic import MalformedEvent, Plane, Reference, enrich, load_reference, parse_event

from scripts import reference_data

REFERENCE = Reference(
    airlines={"UA": "United Air Lines Inc."},
    planes={
        "N14228": Plane(
            year=1999, manufacturer="BOEING", model="737-824", seats=149, engine="Turbo-fan"
        )
    },
)


def event(**changes: Any) -> dict[str, Any]:
    return {
        "event_id": "20130101T1015Z-UA-1545",
        "event_time": "2013-01-01T10:15:00Z",
        "carrier": "UA",
        "flight": 1545,
        "tailnum": "N14228",
        "origin": "EWR",
        "dest": "IAH",
        "sched_dep_time": 515,
        "dep_time": 517,
        "dep_delay": 2,
        "sched_arr_time": 819,
        "arr_time": 830,
        "arr_delay": 11,
        "air_time": 227,
        "distance": 1400,
        **changes,
    }


def test_an_enriched_event_is_the_event_and_more() -> None:
    enriched = enrich(event(), REFERENCE)

    assert enriched == event() | {
        "airline": "United Air Lines Inc.",
        "plane_year": 1999,
        "plane_manufacturer": "BOEING",
        "plane_model": "737-824",
        "plane_seats": 149,
        "plane_engine": "Turbo-fan",
        "gained_minutes": -9,
        "cancelled": False,
    }


def test_time_made_up_in_the_air_is_gained() -> None:
    assert enrich(event(dep_delay=10, arr_delay=-5), REFERENCE)["gained_minutes"] == 15


def test_a_flight_without_departure_is_cancelled_and_gains_nothing() -> None:
    cancelled = enrich(
        event(dep_time=None, dep_delay=None, arr_time=None, arr_delay=None), REFERENCE
    )

    assert (cancelled["cancelled"], cancelled["gained_minutes"]) == (True, None)


def test_a_diverted_flight_is_not_cancelled_and_gains_nothing() -> None:
    diverted = enrich(event(arr_delay=None), REFERENCE)

    assert (diverted["cancelled"], diverted["gained_minutes"]) == (False, None)


@pytest.mark.parametrize("tailnum", [None, "N0", ""])
def test_a_plane_that_is_not_registered_is_null(tailnum: str | None) -> None:
    enriched = enrich(event(tailnum=tailnum), REFERENCE)

    assert {enriched[name] for name in enriched if name.startswith("plane_")} == {None}


def test_an_airline_that_is_not_known_is_null() -> None:
    assert enrich(event(carrier="ZZ"), REFERENCE)["airline"] is None


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it is not JSON"),
        (b"\xff\xfe", "it is not JSON"),
        (b'{"event_id": "cut of', "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b'{"dep_delay": NaN}', "it holds NaN"),
        (b"null", "it is not a JSON object"),
        (b"[1]", "it is not a JSON object"),
    ],
)
def test_what_is_no_json_object_is_malformed(data: bytes, why: str) -> None:
    with pytest.raises(MalformedEvent, match=why):
        parse_event(data)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"event_id": ""}, "its event_id is not a text"),
        ({"carrier": 9}, "its carrier is not a text"),
        ({"origin": None}, "its origin is not a text"),
        ({"flight": "1545"}, "its flight is not a whole number"),
        ({"distance": True}, "its distance is not a whole number"),
        ({"dep_delay": 2.5}, "its dep_delay is neither"),
        ({"tailnum": 7}, "its tailnum is neither"),
        ({"event_time": "yesterday"}, "its event_time is not ISO 8601"),
        ({"event_time": "2013-01-01T10:15:00"}, "its event_time is not in UTC"),
        ({"event_time": "2013-01-01T05:15:00-05:00"}, "its event_time is not in UTC"),
    ],
)
def test_an_event_with_a_wrong_field_is_malformed(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(MalformedEvent, match=why):
        parse_event(json.dumps(event(**changes)).encode())


@given(
    st.binary()
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ).map(lambda value: json.dumps(value).encode())
)
def test_nothing_but_malformed_event_is_raised(data: bytes) -> None:
    with pytest.raises(MalformedEvent):
        parse_event(data)


def test_the_packed_tables_are_those_of_the_source() -> None:
    directory = reference_data.DIRECTORY

    assert (directory / "airlines.csv").read_text() == reference_data.airlines_csv()
    assert (directory / "planes.csv").read_text() == reference_data.planes_csv()


def test_the_packed_tables_are_read() -> None:
    reference = load_reference()

    assert (len(reference.airlines), len(reference.planes)) == (16, 3322)
    assert reference.planes["N10156"] == Plane(2004, "EMBRAER", "EMB-145XR", 55, "Turbo-fan")
    assert any(plane.year is None for plane in reference.planes.values())
