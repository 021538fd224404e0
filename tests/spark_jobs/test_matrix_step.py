"""One job as a step on the Spark under test, with what the CDK app has steps bring along."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.spark_jobs.feed import flights
from tests.spark_jobs.steps import JOBS, Steps, arguments
from tests.support.server import ServerProcess

pytestmark = pytest.mark.spark


def test_departures_by_hour_in_a_step(tmp_path: Path, nightly: bool) -> None:
    if "HEADRACE_PYTHON" not in os.environ and not nightly:
        pytest.skip(
            "tests/pipeline runs this job as a step on this Spark; this test is for the others of the matrix"
        )
    some = flights(200)
    with ServerProcess(tmp_path / "data") as server:
        steps = Steps(server)
        steps.stream("departed", [*some, b"junk"])
        steps.upload("departures.py", (JOBS / "departures.py").read_bytes())

        said = steps.run("departures.py", *arguments("departures"))

        assert said == "read: 201, unreadable: 1, dropped as late: 0\n"
        windows = steps.rows("departures/windows/")
    counted = sum(row["departures"] + row["cancellations"] for row in windows)
    assert counted == len(some)
