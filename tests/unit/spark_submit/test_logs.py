"""Why a step failed, and where its logs go."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.spark_submit.logs import failure_cause, log_location, tail

PYTHON = """\
26/11/21 06:48:25 WARN SparkConf: something
Traceback (most recent call last):
  File "job.py", line 3, in <module>
    raise ValueError("no such airport: XYZ")
ValueError: no such airport: XYZ
26/11/21 06:48:26 INFO ShutdownHookManager: Shutdown hook called
"""
JAVA = """\
Exception in thread "main" org.apache.spark.SparkException: Application failed
\tat org.apache.spark.Main.main(Main.java:1)
"""


@pytest.mark.parametrize(
    ("stderr", "message"),
    [
        (PYTHON, "ValueError: no such airport: XYZ"),
        (JAVA, "org.apache.spark.SparkException: Application failed"),
        ("bash: line 1: nix: command not found\n\n", "bash: line 1: nix: command not found"),
        ("", "The command ended with exit code 3 and wrote nothing to stderr."),
    ],
)
def test_the_cause_is_told_in_a_sentence(stderr: str, message: str) -> None:
    assert failure_cause(stderr, "", 3) == ("stderr", message)


def test_a_python_drivers_traceback_is_looked_for_in_stdout_too() -> None:
    found = failure_cause("WARNING: Using incubator modules\n", PYTHON, 1)
    assert found == ("stdout", "ValueError: no such airport: XYZ")


@pytest.mark.parametrize(
    "stderr",
    [
        "WARNING: Using incubator modules: jdk.incubator.vector\n",
        "Picked up JAVA_TOOL_OPTIONS: -Xmx1g\n26/11/21 06:48:26 INFO ShutdownHookManager: Shutdown hook called\n",
    ],
)
def test_a_drivers_own_words_go_before_what_the_machine_says_of_itself(stderr: str) -> None:
    usage = "usage: job.py [-h] --output OUTPUT\njob.py: error: --output is required\n"
    assert failure_cause(stderr, usage, 2) == ("stdout", "job.py: error: --output is required")
    assert failure_cause(stderr, "", 2) == ("stderr", stderr.splitlines()[-1])
    assert failure_cause("no memory\n" + stderr, usage, 2) == ("stderr", "no memory")


def test_a_message_is_not_longer_than_an_answer_should_carry() -> None:
    assert len(failure_cause("ValueError: " + "x" * 100_000, "", 1)[1]) == 1024


@pytest.mark.parametrize(
    ("uri", "location"),
    [
        ("s3://b/logs/", ("b", "logs/j-1/steps/s-1/")),
        ("s3n://b/logs", ("b", "logs/j-1/steps/s-1/")),
        ("s3://b", ("b", "j-1/steps/s-1/")),
        ("s3://", None),
        ("/var/log", None),
    ],
)
def test_logs_go_below_the_log_uri(uri: str, location: tuple[str, str] | None) -> None:
    assert log_location(uri, "j-1/steps/s-1") == location


def test_the_tail_of_a_long_log_is_its_end(tmp_path: Path) -> None:
    path = tmp_path / "stderr"
    path.write_text("a" * 100 + "the end")
    assert tail(path, 7) == "the end"
    assert tail(tmp_path / "none") == ""
