"""Provides headrace's replacement for `aws-kinesis`, the Spark connector in EMR's image, to jobs that name it.

The replacement is `headrace.spark` under the connector's name. From Spark 3.5 on, it is on the path of jobs that name
the connector (by its jar, or by `aws-kinesis` in their arguments or their file). Spark needs PyArrow to load a data
source written in Python, so PyArrow and boto3 are on that job's path too, although EMR's image may lack them; the job's
log says so. On Spark 3.5 it works only in Python jobs, when they read or write a stream.
"""

from __future__ import annotations

import ast
import importlib.util
import logging
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import headrace
from headrace.core.minor_versions import Minor, format_minor
from headrace.spark_submit.arguments import Submission, option_values
from headrace.spark_submit.environments import cache_folder, locked
from headrace.spark_submit.errors import JobRefused

log = logging.getLogger(__name__)

# Documented: jobs-spark-streaming-connectors.html (EMR Serverless), from 7.1.0 on.
FOLDER_ON_EMR = "/usr/share/aws/kinesis/"
_NAME = "aws-kinesis"
_LONGEST_SOURCE_BYTES = 4 * 1024 * 1024
_PACKAGES = ("pyarrow", "boto3")
# The dependencies of boto3, and the folders beside compiled packages.
_FILES = (
    *_PACKAGES, "pyarrow.libs", "botocore", "s3transfer", "jmespath", "dateutil", "six.py", "urllib3",
)  # fmt: skip
_SPARK = Path(headrace.__file__).parent / "spark"
# Spark 3.5 has no Python data sources, so headrace patches PySpark in the job's process.
OLDEST_SPARK, _FIRST_WITH_SOURCES = (3, 5), (4, 0)

NOTE = (
    "the job names EMR's connector aws-kinesis: headrace.spark answers for it, and it, PyArrow and boto3 are on the "
    "job's path for that; on EMR they need not be there, and a job that imports them itself must bring them"
)
NOTE_TOO_OLD = "the job names EMR's connector aws-kinesis, and nothing answers for it here on a Spark before 3.5"


def stand_in(spark: Minor) -> Path:
    """Return the folder for the job's PYTHONPATH that provides `aws-kinesis` for a Spark."""
    return _SPARK / ("connector" if spark >= _FIRST_WITH_SOURCES else "connector35")


def names_connector(submission: Submission, properties: Mapping[str, str]) -> bool:
    """Return whether a job names the connector: its jar, or `aws-kinesis` in an argument or a string of its file."""
    if any(_is_its_jar(jar) for jar in _jars(submission, properties)):
        return True
    if any(_NAME in argument for argument in submission.arguments):
        return True
    file = Path(submission.application)
    if file.suffix != ".py" or not file.is_file() or file.stat().st_size > _LONGEST_SOURCE_BYTES:
        return False
    return _says_so(file.read_bytes())


def _says_so(source: bytes) -> bool:
    """Return whether a string in a job's file has the connector's name; comments and docstrings do not count."""
    if _NAME.encode() not in source:
        return False
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # Another Python's syntax, or no Python: the job itself reports the error.
        return True
    documents = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return any(
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and _NAME in node.value
        and id(node) not in documents
        for node in ast.walk(tree)
    )


def without_jar(submission: Submission) -> Submission:
    """Return a submission without the connector's jar, which this machine does not have."""
    options: list[tuple[str, str | None]] = []
    for option, value in submission.options:
        name, equals, jars = (value or "").partition("=")
        if option == "--jars" and value is not None:
            value = _others(value)
            if not value:
                continue
        elif option in ("--conf", "-c") and name == "spark.jars":
            value = f"{name}{equals}{_others(jars)}"
        options.append((option, value))
    return Submission(options, submission.application, submission.arguments)


def _others(jars: str) -> str:
    return ",".join(jar for jar in jars.split(",") if not _is_its_jar(jar))


def packages_folder(python: Minor) -> Path:
    """Return the folder of the replacement's packages, whether it exists or not."""
    return cache_folder() / f"connector-py{format_minor(python)}"


def is_made(python: Minor) -> bool:
    """Return whether the replacement's packages are complete and of this headrace's version."""
    folder = packages_folder(python)
    spark = folder / "headrace" / "spark"
    return spark.is_symlink() and spark.resolve() == _SPARK and (folder / _PACKAGES[0]).exists()


def make_packages(python: Minor) -> None:
    """Create the replacement's packages: links to headrace's own, else pip's for this Python. Raises JobRefused."""
    folder = packages_folder(python)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder, log.info):
        if is_made(python):
            return
        part = folder.with_name(f".{folder.name}.part")
        for left in (folder, part):
            shutil.rmtree(left, ignore_errors=True)
        (part / "headrace").mkdir(parents=True)
        (part / "headrace" / "__init__.py").touch()
        (part / "headrace" / "spark").symlink_to(_SPARK)
        own = list(_own_packages(python))
        for path in own:
            (part / path.name).symlink_to(path)
        if not own:
            _install(part, python)
        part.rename(folder)


def _install(folder: Path, python: Minor) -> None:
    done = subprocess.run(
        [
            sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
            "--no-input", "--target", str(folder), "--python-version", format_minor(python),
            "--only-binary", ":all:", *_PACKAGES,
        ],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["pip printed nothing"])[-1]
        raise JobRefused(f"What stands in for EMR's connector cannot be installed: {last}")


def _own_packages(python: Minor) -> Iterator[Path]:
    """Return the paths of headrace's own packages, if they are for this Python."""
    if python != sys.version_info[:2]:
        return
    spec = importlib.util.find_spec(_PACKAGES[0])
    for place in (spec and spec.submodule_search_locations) or []:
        packages = Path(place).parent
        yield from (path for name in _FILES if (path := packages / name).exists())


def _jars(submission: Submission, properties: Mapping[str, str]) -> list[str]:
    given = [*option_values(submission, "--jars"), properties.get("spark.jars", "")]
    return [jar for value in given for jar in value.split(",")]


def _is_its_jar(jar: str) -> bool:
    return jar.removeprefix("file://").startswith(FOLDER_ON_EMR)
