"""The suite's order: its files are there, a Spark session's files are together, and its late logs are nobody's."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.support import schedule

TESTS = Path(__file__).parents[1]
FILES = [file for line in schedule.TOGETHER for file in line]


def test_every_file_that_it_names_is_there_once() -> None:
    assert [file for file in [*FILES, *schedule.APART] if not (TESTS / file).is_file()] == []
    assert len(FILES) == len(set(FILES))


def test_the_longest_come_first_and_the_others_keep_their_order() -> None:
    ids = ["tests/unit/a.py::x", *(f"tests/{file}::x" for file in reversed(FILES)), "tests/a.py::x"]
    ids.sort(key=schedule.place_in_order)
    assert schedule.file_of(ids[0]) in schedule.TOGETHER[0]
    assert ids[-2:] == ["tests/unit/a.py::x", "tests/a.py::x"]


def test_a_worker_gets_whole_files_and_several_that_share() -> None:
    unit = schedule.LongestFirst._split_scope
    none: schedule.LongestFirst = None  # type: ignore[assignment] - it looks at the name alone
    together = next(line for line in schedule.TOGETHER if len(line) > 1)
    assert len({unit(none, f"tests/{file}::{test}") for file in together for test in "ab"}) == 1
    new = "tests/spark_jobs/test_of_tomorrow.py::x"
    assert unit(none, new) == unit(none, f"tests/{schedule.TOGETHER[0][0]}::x")
    assert unit(none, "tests/unit/a.py::x") == unit(none, "tests/unit/a.py::TestY::z[1::2]")
    assert unit(none, "tests/unit/a.py::x") != unit(none, "tests/unit/b.py::x")
    (apart, *_) = schedule.APART
    assert unit(none, f"tests/{apart}::x") != unit(none, f"tests/{apart}::y")


def test_what_py4j_logs_of_another_test_is_not_captured(caplog: pytest.LogCaptureFixture) -> None:
    for path in ("/site-packages/py4j/java_gateway.py", "/headrace/cloud.py"):
        record = logging.LogRecord("root", logging.WARNING, path, 1, path, None, None)
        logging.getLogger().handle(record)
    assert caplog.messages == ["/headrace/cloud.py"]
