from __future__ import annotations

from itertools import islice

import pandas as pd
import pytest

from headrace.cli.flights import event_frame, iter_events
from scripts.reference import (
    cancellations,
    differences,
    differing_flights,
    differing_windows,
    enriched,
    hourly_departures,
    sort_windows,
)


@pytest.fixture(scope="module")
def january() -> pd.DataFrame:
    return event_frame(1)


@pytest.fixture
def table(january: pd.DataFrame) -> pd.DataFrame:
    return hourly_departures(january.head(500))


def lake(rows: pd.DataFrame) -> pd.DataFrame:
    return enriched(rows).reset_index()


def test_january_has_521_cancellations_as_a_frame_and_as_events(january: pd.DataFrame) -> None:
    assert cancellations(january) == 521
    assert cancellations(list(iter_events(1))) == 521


def test_events_and_their_frame_give_the_same_tables(january: pd.DataFrame) -> None:
    events = list(islice(iter_events(1), 500))

    assert differences(hourly_departures(january.head(500)), hourly_departures(events)) == 0
    assert differing_flights(enriched(events), lake(january.head(500))).empty


def test_the_windows_account_for_every_flight(january: pd.DataFrame) -> None:
    table = hourly_departures(january)

    assert table["departures"].sum() + table["cancellations"].sum() == 27_004
    assert not table.duplicated(["window_start", "origin"]).any()


def test_a_window_by_hand() -> None:
    events = pd.DataFrame(
        {
            "event_time": [
                "2013-01-01T10:00:00Z",
                "2013-01-01T10:59:00Z",
                "2013-01-01T10:30:00Z",
                "2013-01-01T11:00:00Z",
            ],
            "origin": ["JFK", "JFK", "JFK", "JFK"],
            "dep_time": [1, 2, None, None],
            "dep_delay": [0, 20, None, None],
        }
    )

    table = hourly_departures(events)

    assert table["window_start"].dt.hour.tolist() == [10, 11]
    assert table["departures"].tolist() == [2, 0]
    assert table["cancellations"].tolist() == [1, 1]
    assert table["mean_delay"].tolist()[0] == 10
    assert table["p95_delay"].tolist()[0] == pytest.approx(19)
    assert table[["mean_delay", "p95_delay"]].iloc[1].isna().all()


def test_equal_windows_do_not_differ_whatever_their_order(table: pd.DataFrame) -> None:
    assert differing_windows(table, table.sample(frac=1, random_state=1)).empty


def test_sorting_restores_the_order(table: pd.DataFrame) -> None:
    shuffled = table.assign(window_end=0).sample(frac=1, random_state=1)

    pd.testing.assert_frame_equal(sort_windows(shuffled), table)


def test_windows_without_a_departure_are_equal_when_both_have_no_delay() -> None:
    events = event_frame(1)
    cancelled = hourly_departures(events[events["dep_time"].isna()].head(5))

    assert cancelled["mean_delay"].isna().all()
    assert differing_windows(cancelled, cancelled).empty


@pytest.mark.parametrize(
    ("column", "value"),
    [("departures", 99), ("cancellations", 99), ("mean_delay", 0.001), ("p95_delay", None)],
)
def test_a_window_with_another_value_differs(
    column: str, value: float | None, table: pd.DataFrame
) -> None:
    other = table.astype({column: "float64"})
    other.loc[3, column] = value

    assert len(differing_windows(table, other)) == 1


def test_a_window_that_is_missing_or_twice_differs(table: pd.DataFrame) -> None:
    assert len(differing_windows(table, table.iloc[1:])) == 1
    assert len(differing_windows(table.iloc[1:], table)) == 1
    assert len(differing_windows(table, pd.concat([table, table.head(1)]))) == 2


def test_equal_flights_do_not_differ(january: pd.DataFrame) -> None:
    rows = january.head(300)

    assert differing_flights(enriched(rows), lake(rows)).empty


def test_flights_that_are_missing_unexpected_twice_or_changed_are_named(
    january: pd.DataFrame,
) -> None:
    rows = january.head(10)
    actual = lake(rows)
    expected = enriched(january.head(9)).drop(index=actual["event_id"][0])
    changed = actual.drop(index=1)
    changed.loc[2, ["airline", "gained_minutes"]] = ["Nobody", 1000]
    changed = pd.concat([changed, changed.tail(1)])

    why = differing_flights(expected, changed).set_index("event_id")["why"].to_dict()

    ids = actual["event_id"]
    assert why == {
        ids[0]: "unexpected",
        ids[1]: "missing",
        ids[2]: "airline, gained_minutes",
        ids[9]: "twice",
    }
