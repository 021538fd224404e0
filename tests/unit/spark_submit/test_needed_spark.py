from __future__ import annotations

from pathlib import Path

import pytest

from headrace.spark_submit.emr_releases import ReleaseTooOld, check_release, read_needed_spark

JOBS = Path(__file__).parents[3] / "spark_jobs"


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return tmp_path / "job.py"


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("", None),
        ('NEEDS_SPARK = "4.0"', (4, 0)),
        ('import nothing_of_that_name\nNEEDS_SPARK: str = "3.5"\n', (3, 5)),
        ('def main():\n    NEEDS_SPARK = "4.0"', None),
        ("this is no Python", None),
        ("\0", None),
    ],
)
def test_a_job_is_read_and_not_imported(
    job: Path, text: str, needed: tuple[int, int] | None
) -> None:
    job.write_text(text)

    assert read_needed_spark(job) == needed


@pytest.mark.parametrize("value", ["4", "4.0", '"4"', '"four"', '"4." + "0"', "None"])
def test_what_is_no_version_is_said(job: Path, value: str) -> None:
    job.write_text(f"NEEDS_SPARK = {value}")

    with pytest.raises(ValueError, match=r"job\.py declares NEEDS_SPARK = .*: say a version such"):
        read_needed_spark(job)


def test_a_release_is_held_against_what_a_job_needs(job: Path) -> None:
    job.write_text('NEEDS_SPARK = "4.0"')

    with pytest.raises(ReleaseTooOld) as too_old:
        check_release(job, "emr-7.13.0")

    assert str(too_old.value) == (
        "job.py needs Spark 4.0, and emr-7.13.0 has Spark 3.5.6: "
        "take one of emr-spark-8.0-preview to emr-spark-8.1.0."
    )
    check_release(job, "emr-spark-8.0.0")
    check_release(job, "emr-99.0.0")
    with pytest.raises(ReleaseTooOld, match=r"emr-5\.36\.0 has an older one"):
        check_release(job, "emr-5.36.0")
    job.write_text('NEEDS_SPARK = "9.0"')
    with pytest.raises(ReleaseTooOld, match="no release of EMR that is known has it yet"):
        check_release(job, "emr-spark-8.0.0")


def test_every_job_of_ours_says_what_it_needs() -> None:
    needs = {
        path.stem: read_needed_spark(path) for path in JOBS.glob("*.py") if path.stem != "__init__"
    }

    assert needs.pop("cascades") == (4, 0)
    assert len(needs) == 14
    assert set(needs.values()) == {(3, 5)}
