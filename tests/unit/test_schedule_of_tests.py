"""The suite's order names files that there are, and keeps together what shares a Spark session."""

from __future__ import annotations

from pathlib import Path

from tests.support import schedule

TESTS = Path(__file__).parents[1]
FILES = [file for line in schedule.TOGETHER for file in line]


def test_every_file_that_it_names_is_there_once() -> None:
    assert [file for file in [*FILES, *schedule.APART] if not (TESTS / file).is_file()] == []
    assert len(FILES) == len(set(FILES))


def test_groups_keep_files_together_and_the_longest_go_first() -> None:
    ids = [
        "tests/unit/test_a.py::test_1",
        "tests/spark_jobs/test_new.py::test_2",
        f"tests/{schedule.TOGETHER[0][1]}::test_3",
        "tests/unit/test_b.py::test_4",
        "tests/spark_jobs/test_step.py::test_5",
        f"tests/{schedule.TOGETHER[0][0]}::test_6",
        "tests/unit/test_a.py::test_7",
        "tests/spark_jobs/test_step.py::test_8",
    ]
    assert schedule.groups_of(ids) == [[5, 2, 1], [4], [7], [0, 6], [3]]
