"""Lists the Spark versions that the tests run on, and runs the Spark tests on one of them: `scripts/test --spark 3.5`.

Each has a separate environment in `.spark/<version>`, made on first use: PyPI's PySpark, the packages that jobs bring
for it (`spark_jobs/requirements/`), and pytest, but nothing of headrace. The tests run in its interpreter. They start
clouds in headrace's own environment, with the interpreter in HEADRACE_PYTHON.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from cdk.parts.python_packages import requirements_of
from headrace.core.extras import minor_of
from headrace.spark_submit import JobRefused
from headrace.spark_submit.emr_releases import releases
from headrace.spark_submit.environments import (
    CACHE_VARIABLE,
    REUSE_VARIABLE,
    Environment,
    ensure,
    python_for,
)

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".spark"
# The cloud's environments for release labels; they link to the tests' environments.
CACHE = FOLDER / "cache"


@dataclass(frozen=True)
class Tested:
    """One Spark of the matrix.

    Attributes:
        spark: the installed version; an EMR release's, if one has this minor version.
        python: the Python of its tests; for an EMR release the oldest one of its image.
    """

    spark: str
    python: str

    @property
    def label(self) -> str | None:
        """The newest EMR release with exactly this Spark and this default Python; None if there is none."""
        wanted = (self.spark, self.python)
        labels = (r.label for r in releases() if (r.spark_version, r.python) == wanted)
        return next(labels, None)


# The default is in pyproject.toml, and `make test` runs all tests with it.
MATRIX = {
    "3.5": Tested("3.5.6", "3.9"),
    "4.0": Tested("4.0.2", "3.11"),
    "4.1": Tested("4.1.1", "3.11"),
    "4.2": Tested("4.2.1", "3.11"),
    "4.3": Tested("4.3.0", "3.11"),
}
# What `make test` runs on the oldest, and nightly on the newest: the source and the sink. Steps on the oldest are in
# tests/api/emr/test_labels.py.
_DRAINED = "a_drained_query_has_bounded_batches_and_its_progress_and_goes_on_where_it_stopped"
_ON_EVERY_SPARK = (
    "tests/spark/test_streams_writes.py::test_a_frame_is_appended_every_key_in_order",
)
# Spark 3.5 has no sources in Python, and so its own implementation.
_CORE_OF_35 = (f"tests/spark/test_streams.py::test_{_DRAINED}",)
_CORE_OF_4 = ("tests/spark/test_source.py::test_limits_cut_a_backlog_into_batches",)
ALL = ("tests/spark", "tests/spark_jobs")
# Versions of 2026, and the last versions for Python 3.9.
_TOOLS = ("pytest>=8.4,<10", "pytest-xdist>=3.8,<4", "hypothesis>=6.140")


def core_of(minor: str) -> tuple[str, ...]:
    """Return the tests of a Spark that `make test` runs."""
    return (*(_CORE_OF_35 if minor == "3.5" else _CORE_OF_4), *_ON_EVERY_SPARK)


def environment_of(minor: str) -> Environment:
    """Return the environment of a Spark of the matrix; make it if needed. Raises JobRefused with a sentence."""
    tested = MATRIX[minor]
    python, version = python_for(tested.spark, [minor_of(tested.python)])
    environment = Environment(tested.spark, version, FOLDER / tested.spark)
    named = requirements_of(ROOT / "spark_jobs" / "requirements", minor_of(tested.spark))
    lines = named.read_text().splitlines()
    packages = [line for line in lines if not line.startswith(("#", "numpy"))]
    ensure(
        environment,
        python,
        say=lambda text: print(f"headrace: {text}", file=sys.stderr),
        more=[*packages, *_TOOLS],
        mend=f"Then: scripts/test --spark {minor}",
    )
    return environment


def variables(minor: str, environment: Environment) -> dict[str, str]:
    """Return the tests' environment variables: headrace's interpreter, and the cloud's Spark for steps."""
    tested = MATRIX[minor]
    found = {
        **os.environ,
        "HEADRACE_PYTHON": sys.executable,
        CACHE_VARIABLE: str(CACHE),
        REUSE_VARIABLE: str(environment.folder),
    }
    if tested.label is None:
        # No EMR release has this Spark: the cloud runs all steps with it.
        found["HEADRACE_SPARK_HOME"] = str(environment.home)
    else:
        found["HEADRACE_TEST_RELEASE"] = tested.label
    return found


def main(arguments: list[str]) -> int:
    """Run the Spark tests on one Spark, and return pytest's exit status."""
    parser = argparse.ArgumentParser(prog="scripts/test --spark", description=main.__doc__)
    parser.add_argument("version", choices=MATRIX, nargs="?")
    parser.add_argument("--list", action="store_true", help="print all versions, and do nothing")
    parser.add_argument(
        "--core", action="store_true", help="run only the core tests, as make test does"
    )
    parser.add_argument("--install", action="store_true", help="only install its environment")
    given, rest = parser.parse_known_args(arguments)
    if given.list:
        print(*MATRIX)
        return 0
    if given.version is None:
        parser.error(f"--spark wants one of {', '.join(MATRIX)}")
    try:
        environment = environment_of(given.version)
    except JobRefused as error:
        print(f"headrace: {error}", file=sys.stderr)
        return 1
    archive = [sys.executable, "-m", "tests.support.class_archive"]
    where = [str(environment.home), str(environment.interpreter)]
    subprocess.run([*archive, *where], cwd=ROOT, check=True)
    if given.install:
        return 0
    places = [word for word in rest if word.startswith("tests/")]
    named = () if places else core_of(given.version) if given.core else ALL
    command = [str(environment.interpreter), "-m", "pytest", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *named, *rest],
        cwd=ROOT,
        env=variables(given.version, environment),
        check=False,
    )
    return done.returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
