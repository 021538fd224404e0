"""The suite's order names files that there are, and keeps together what shares a Spark session."""

from __future__ import annotations

from pathlib import Path

from tests.support import schedule

TESTS = Path(__file__).parents[1]
FILES = [file for line in schedule.TOGETHER for file in line]


def test_every_file_that_it_names_is_there_once() -> None:
    assert [file for file in [*FILES, *schedule.APART] if not (TESTS / file).is_file()] == []
    assert len(FILES) == len(set(FILES))


def test_the_longest_come_first_and_the_others_keep_their_order() -> None:
    ids = ["tests/unit/b.py::x", *(f"tests/{file}::x" for file in reversed(FILES)), "tests/a.py::x"]
    files = [schedule.file_of(ids[unit[0]]) for unit in schedule.units_of(ids)]
    assert files[0] in schedule.TOGETHER[0]
    assert files[-2:] == ["unit/b.py", "a.py"]


def test_a_process_gets_whole_files_and_several_that_share() -> None:
    def is_one(*ids: str) -> bool:
        return len(schedule.units_of([f"tests/{test}" for test in ids])) == 1

    together = next(line for line in schedule.TOGETHER if len(line) > 1)
    assert is_one(*(f"{file}::{test}" for file in together for test in "ab"))
    assert is_one("spark_jobs/test_of_tomorrow.py::x", f"{schedule.TOGETHER[0][0]}::x")
    assert is_one("unit/a.py::x", "unit/a.py::TestY::z[1::2]")
    assert not is_one("unit/a.py::x", "unit/b.py::x")
    (apart, *_) = schedule.APART
    assert not is_one(f"{apart}::x", f"{apart}::y")


def test_every_test_is_in_one_unit() -> None:
    ids = [f"tests/{file}::{test}" for test in "ab" for file in (*FILES, "unit/a.py")]
    assert sorted(number for unit in schedule.units_of(ids) for number in unit) == list(
        range(len(ids))
    )
