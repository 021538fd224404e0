"""The jobs as real EMR steps of the local cloud, their package sent along, on streams in Kinesis."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scripts import reference_streams as reference
from spark_jobs.common import views
from tests.spark_jobs.feed import Event, flights
from tests.spark_jobs.steps import BUCKET, JOBS, Steps, arguments
from tests.spark_jobs.test_tables import board_of
from tests.support.server import ServerProcess

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

CUT = "2013-01-01T16:00:00Z"
# Runs the jobs' main() one after the other: one JVM, and the log of one step. `put` puts the lines of an object.
SEVERAL = b"""\
import importlib
import json
import re
import sys

import boto3


def put(stream, bucket, key):
    lines = boto3.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read().splitlines()
    records = [{"Data": line, "PartitionKey": str(n)} for n, line in enumerate(lines)]
    answer = boto3.client("kinesis").put_records(StreamName=stream, Records=records)
    assert not answer["FailedRecordCount"], answer


for name, argv in json.loads(sys.argv[1]):
    if name == "put":
        put(*argv)
        continue
    print(name, end=": ", flush=True)
    status = importlib.import_module(f"spark_jobs.{name}").JOB.main(argv)
    assert status == 0, status
"""


@pytest.fixture
def steps(tmp_path: Path) -> Iterator[Steps]:
    with ServerProcess(tmp_path / "data") as server:
        yield Steps(server)


def several(steps: Steps, *jobs: tuple[str, list[str]]) -> list[str]:
    """Run jobs in one step, and return a line of each."""
    steps.upload("several.py", SEVERAL)
    return steps.run("several.py", json.dumps(jobs)).splitlines()


def parts(
    steps: Steps, stream: str, run: tuple[str, list[str]], *some: list[Event | bytes]
) -> list[tuple[str, list[str]]]:
    """A job's runs after each part that is put into its stream: Spark 4.0 makes one micro-batch of a run."""
    runs: list[tuple[str, list[str]]] = []
    for number, part in enumerate(some):
        lines = [e if isinstance(e, bytes) else json.dumps(e).encode() for e in part]
        steps.upload(f"parts/{stream}/{number}", b"\n".join(lines))
        runs += [("put", [stream, BUCKET, f"parts/{stream}/{number}"]), run]
    return runs


def planes(steps: Steps, some: list[Event]) -> str:
    """A register of every second aircraft."""
    known = sorted({event["tailnum"] for event in some if event["tailnum"]})[::2]
    rows = {
        "tailnum": known,
        "year": pa.array([2001] * len(known), pa.int32()),
        "manufacturer": ["BOEING"] * len(known),
        "model": ["737"] * len(known),
        "seats": pa.array([len(name) for name in known], pa.int32()),
    }
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(rows), sink)
    steps.upload("planes/planes.parquet", sink.getvalue().to_pybytes())
    return f"s3://{BUCKET}/planes/"


def view_of(events: list[Event]) -> set[tuple[str, str, int]]:
    frame = pd.DataFrame(
        {"day": [e["event_time"][:10] for e in events], "origin": [e["origin"] for e in events]}
    )
    return {(*key, n) for key, n in frame.value_counts().items()}  # type: ignore[misc]


def found_view(rows: list[dict[str, Any]]) -> set[tuple[str, str, int]]:
    frame = pd.DataFrame(rows).groupby(["day", "origin"])["flights"].sum()
    return {(str(day), origin, n) for (day, origin), n in frame.items()}  # type: ignore[misc]


@pytest.mark.slow
def test_departures_meet_their_weather_in_a_step(steps: Steps) -> None:
    some = flights(120)
    hours = sorted({event["event_time"][:13] for event in some})
    reports = [
        {
            "event_id": f"{origin}-{hour}",
            "event_time": f"{hour}:00:00Z",
            "origin": origin,
            "temp": float(number),
        }
        for number, hour in enumerate(hours)
        for origin in ("EWR", "JFK", "LGA")
    ]
    steps.stream("departed", some)
    steps.stream("weather", [*reports, b"rain"])
    steps.upload("weather_delays.py", (JOBS / "weather_delays.py").read_bytes())
    bad = ("--quarantine", f"s3://{BUCKET}/bad/")

    said = steps.run("weather_delays.py", *arguments("out", "--weather-stream", "weather", *bad))

    read = len(some) + len(reports) + 1
    assert f"read: {read}, unreadable: 1, dropped as late: 0" in said
    assert "quarantined flights: 0, quarantined weather: 1" in said
    assert [row["data"] for row in steps.rows("bad/weather/")] == [b"rain"]
    joined = steps.rows("out/joined/")
    assert {row["event_id"]: row["temp"] for row in joined} == {
        event["event_id"]: float(hours.index(event["event_time"][:13])) for event in some
    }
    assert len(joined) == len(some)


@pytest.mark.slow
def test_views_and_a_replay_agree_and_events_come_with_ids_in_a_step(steps: Steps) -> None:
    some = flights(300)
    steps.stream("departed", some)
    for name in ("enriched", "windows", "cut"):
        steps.stream(name)
    archive = "\n".join(map(json.dumps, some)).encode()
    steps.upload("archive/flights.json", archive)
    register = planes(steps, some)
    uri = f"s3://{BUCKET}"
    enrich = ["--planes", register, "--output", "kinesis://enriched"]
    views_of_archive = ["--archive", f"{uri}/archive/", "--before", CUT]

    said = several(
        steps,
        ("batch_view", [*views_of_archive, "--output", f"{uri}/batch_view/"]),
        ("speed_view", arguments("speed_view", "--since", CUT)),
        ("replay", arguments("replay")),
        (
            "serve",
            [
                *("--batch", f"{uri}/batch_view/", "--speed", f"{uri}/speed_view/"),
                *("--output", f"{uri}/serve/"),
            ],
        ),
        ("fleet_enrich", arguments("fleet_enrich", *enrich)),
        # From an empty checkpoint again: every event comes a second time.
        ("fleet_enrich", arguments("fleet_again", *enrich)),
        *parts(
            steps,
            "cut",
            (
                "rolling_delays",
                arguments(
                    *("rolling", "--output", "kinesis://windows", "--watermark", "60 days"),
                    stream="cut",
                ),
            ),
            *(list[Event | bytes](some[start::3]) for start in range(3)),
        ),
    )

    assert [line for line in said if line.startswith(("replay", "fleet"))] == [
        "replay: read: 300, unreadable: 0, dropped as late: 0",
        *(["fleet_enrich: read: 300, unreadable: 0, dropped as late: 0"] * 2),
    ]
    served = found_view(steps.rows("serve/"))
    assert served == found_view(steps.rows("replay/")) == view_of(some)
    assert 0 < sum(row["flights"] for row in steps.rows("batch_view/")) < len(some)
    enriched = steps.records("enriched")
    assert len(enriched) == 2 * len(some)
    once = {event["event_id"]: event["row"] for event in enriched}
    assert {row["event_id"]: row["tailnum"] for row in once.values()} == {
        event["event_id"]: event["tailnum"] for event in some
    }
    assert len(once) == len(some)
    assert {row["plane_year"] for row in once.values()} == {2001, None}
    last: dict[tuple[str, str], tuple[int, Event]] = {}
    for event in steps.records("windows"):
        row, batch = event["row"], event["batch"]
        key = (row["window_start"], row["origin"])
        last[key] = max(last.get(key, (-1, {})), (batch, row), key=lambda pair: pair[0])
    assert max(batch for batch, _ in last.values()) == 2
    windows = pd.DataFrame([row for _, row in last.values()])
    windows["window_start"] = pd.to_datetime(windows["window_start"], utc=True)
    wanted = reference.rolling_delays(reference.kept([some], pd.Timedelta(days=60)).rows)
    assert reference.differing(wanted, windows, ["window_start", "origin"]).empty


@pytest.mark.slow
def test_complex_events_and_sketches_and_a_board_in_a_step(steps: Steps) -> None:
    first = [
        event | {"tailnum": f"N{place % 2}", "dep_delay": 20 if place % 12 else 0}
        for place, event in enumerate(flights(60))
    ]
    then = flights(60, month=2)
    steps.stream("departed")
    bad = ("--quarantine", f"s3://{BUCKET}/bad/")

    said = several(
        steps,
        # The last micro-batch begins with a watermark between January's first flights and February's.
        *parts(
            steps,
            "departed",
            ("cascades", arguments("cascades", *bad)),
            [*first],
            [*then],
            [b"junk"],
        ),
        *((job, arguments(job, "--watermark", "60 days")) for job in ("sketches", "airport_board")),
    )

    counts = "read: 121, unreadable: 1, dropped as late: 0"
    waiting = [re.search(r", rows waiting in state: (\d+)", line) for line in said[:3]]
    assert all(found and int(found[1]) > 0 for found in waiting)
    assert [re.sub(r", rows waiting in state: \d+", "", line) for line in said] == [
        *(["cascades: read: 60, unreadable: 0, dropped as late: 0, quarantined: 0"] * 2),
        "cascades: read: 1, unreadable: 1, dropped as late: 0, quarantined: 1",
        f"sketches: {counts}",
        f"airport_board: {counts}",
    ]
    rows = reference.kept([first], pd.Timedelta(0)).rows
    wanted = reference.cascades(rows, rows["event_time"].max())
    assert len(wanted) > 20
    found = pd.DataFrame(steps.rows("cascades/cascades/"))
    found = found[found["event_time"] < pd.Timestamp("2013-01-20")]
    assert reference.differing(wanted, found, ["event_id"]).empty
    board = {row["origin"]: row for row in steps.rows("airport_board/")}
    for origin, (departed, gone, newest) in board_of([*first, *then]).items():
        row = board[origin]
        assert (row["departures"], row["cancellations"]) == (departed, gone)
        assert row["event_id"] == newest
    assert {row["tailnum"] for row in steps.rows("sketches/heavy/")} > {"N0", "N1"}


@pytest.mark.slow
def test_every_jobs_own_script_is_a_step(steps: Steps) -> None:
    some = flights(400)
    steps.stream("departed", [*some, b"junk"])
    steps.stream("weather")
    steps.upload("archive/flights.json", "\n".join(map(json.dumps, some)).encode())
    uri = f"s3://{BUCKET}"
    more = {
        "fleet_enrich": ["--planes", planes(steps, some)],
        "weather_delays": ["--weather-stream", "weather"],
        "speed_view": ["--since", CUT],
        "live_view": ["--trigger", "available-now", "--metrics", "Headrace/Jobs"],
    }
    whole = {
        "batch_view": [
            *("--archive", f"{uri}/archive/", "--before", CUT, "--output", f"{uri}/batch_view/")
        ],
        "serve": [
            *("--batch", f"{uri}/batch_view/", "--speed", f"{uri}/speed_view/"),
            *("--output", f"{uri}/serve/"),
        ],
    }
    # compact and device_sessions read streams of other events; their own tests run them.
    others = {"__init__", "compact", "device_sessions"}
    names = sorted({path.stem for path in JOBS.glob("*.py")} - others)
    assert len(names) == 13
    for name in names:
        steps.upload(f"{name}.py", (JOBS / f"{name}.py").read_bytes())
    for name in [*(n for n in names if n != "serve"), "serve"]:
        said = steps.run(f"{name}.py", *whole.get(name, arguments(name, *more.get(name, []))))
        if name not in whole:
            assert said.startswith("read: 401, unreadable: 1, dropped as late: 0"), name
    assert found_view(steps.rows("serve/")) == view_of(some)
    assert set(views.NUMBERS) <= set(steps.rows("serve/")[0])
