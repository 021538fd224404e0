"""What EMR's releases stand for, as data, and which Spark a job needs.

The releases of EMR and EMR Serverless, as data: which Spark, Hadoop, Python, Java and Scala each label stands for.

Each release names its source in `evidence` and `source`. Pages of AWS's ReleaseGuide and EMR-Serverless-UserGuide are
below https://docs.aws.amazon.com/emr/latest/.

The differences between the minor versions of Spark that jobs can use: Java, Python, settings, log4j.

Reads the Spark version that a job's file declares, and checks whether an EMR release is too old for it.

A job declares the oldest Spark that it runs on with a line outside of any function:

    NEEDS_SPARK = "4.0"

The file is parsed, never imported, so that this works without Spark. Without the line, a job runs on any release.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headrace.core.extras import Minor, format_minor, minor_of

NAME = "NEEDS_SPARK"


class ReleaseTooOld(Exception):
    """A release's Spark is older than the one that a job needs; the message is a sentence."""


def read_needed_spark(job: Path) -> Minor | None:
    """Return the oldest Spark that a job's file declares, such as (4, 0); None without a declaration.

    Raises ValueError, with one sentence, for an invalid declaration. A file that is not Python declares nothing: Spark
    itself will report why it does not run.
    """
    try:
        body = ast.parse(job.read_bytes()).body
    except (SyntaxError, ValueError):
        return None
    for statement in body:
        if isinstance(statement, ast.Assign):
            targets, value = statement.targets, statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets, value = [statement.target], statement.value
        else:
            continue
        if any(isinstance(target, ast.Name) and target.id == NAME for target in targets):
            return _minor(job, value)
    return None


def _minor(job: Path, value: ast.expr) -> Minor:
    text = value.value if isinstance(value, ast.Constant) else None
    match = re.fullmatch(r"(\d+)\.(\d+)", text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(
            f'{job.name} declares {NAME} = {ast.unparse(value)}: say a version such as "4.0".'
        )
    return int(match[1]), int(match[2])


def check_release(job: Path, label: str) -> None:
    """Raise ReleaseTooOld, with a sentence, when the Spark of a release is older than a job needs.

    A label newer than the table passes: AWS may have it. Raises ValueError; see `read_needed_spark`.
    """
    needed = read_needed_spark(job)
    if needed is None:
        return
    try:
        release = release_of(label)
    except UnknownRelease:
        if not re.match(r"emr-[45]\.", label):
            return
        has = "an older one"
    else:
        if release.spark_minor >= needed:
            return
        has = f"Spark {release.spark_version}"
    raise ReleaseTooOld(
        f"{job.name} needs Spark {format_minor(needed)}, and {label} has {has}: {_advice(needed)}."
    )


def _advice(needed: Minor) -> str:
    enough = [release.label for release in releases() if release.spark_minor >= needed]
    if not enough:
        return "no release of EMR that is known has it yet"
    return f"take {enough[0]}" if len(enough) == 1 else f"take one of {enough[-1]} to {enough[0]}"


# A version newer than any.
_NO_SUCH_JAVA = 1000
_STREAMING = "org.apache.spark.sql.execution.streaming"
# The first and the last Python of each, from the classifiers on PyPI (looked up 2026-11-22). The cloudpickle of Spark
# 3.3 and before cannot read the bytecode of Python 3.11.
_PYTHONS: dict[Minor, tuple[Minor, Minor]] = {
    (2, 4): ((3, 4), (3, 7)),
    (3, 0): ((3, 6), (3, 8)),
    (3, 1): ((3, 6), (3, 9)),
    (3, 2): ((3, 6), (3, 9)),
    (3, 3): ((3, 7), (3, 10)),
    (3, 4): ((3, 7), (3, 11)),
    (3, 5): ((3, 8), (3, 11)),
    (4, 0): ((3, 9), (3, 13)),
    (4, 1): ((3, 10), (3, 14)),
    (4, 2): ((3, 10), (3, 14)),
    (4, 3): ((3, 11), (3, 14)),
}


@dataclass(frozen=True, slots=True)
class SparkTraits:
    """The requirements and settings of one minor version of Spark.

    Attributes:
        minor: the version, `(4, 0)`.
        pythons: the Pythons that it runs with, oldest first.
        javas: the feature releases of Java that it runs on (each version's overview page, spark.apache.org/docs).
        needed_java: `javas` as text.
        checkpoint_manager: the class that writes checkpoints through Hadoop's FileSystem; 4.1 moved it (SPARK-52787).
        write_resolver: the class that warns when a streaming query begins; 4.1 moved it.
        has_log4j2: whether it logs with log4j 2 (SPARK-37814, 3.3) instead of log4j 1.
        logging_classification: the classification of EMR that configures its logging.
        loads_defaults: whether `--load-spark-defaults` can be used with `--properties-file` (SPARK-48392, 4.0).
    """

    minor: Minor
    pythons: Sequence[Minor]
    javas: Container[int]
    needed_java: str
    checkpoint_manager: str
    write_resolver: str
    has_log4j2: bool
    logging_classification: str
    loads_defaults: bool


@functools.cache
def traits_of(spark: Minor) -> SparkTraits:
    """Return the traits of a Spark; a Spark newer than the known ones gets the newest one's Pythons."""
    first, last = _PYTHONS.get(spark) or _PYTHONS[max(_PYTHONS)]
    if spark >= (4, 0):
        javas, needed_java = range(17, _NO_SUCH_JAVA), "Java 17 or newer"
    elif spark >= (3, 3):
        javas, needed_java = (8, 11, 17), "Java 8, 11 or 17"
    elif spark >= (3, 0):
        javas, needed_java = (8, 11), "Java 8 or 11"
    else:
        javas, needed_java = (8,), "Java 8"
    moved = spark >= (4, 1)
    checkpointing = f"{_STREAMING}.checkpointing" if moved else _STREAMING
    runtime = f"{_STREAMING}.runtime" if moved else _STREAMING
    has_log4j2 = spark >= (3, 3)
    return SparkTraits(
        minor=spark,
        pythons=tuple((3, minor) for minor in range(first[1], last[1] + 1)),
        javas=javas,
        needed_java=needed_java,
        checkpoint_manager=f"{checkpointing}.FileSystemBasedCheckpointFileManager",
        write_resolver=f"{runtime}.ResolveWriteToStream",
        has_log4j2=has_log4j2,
        logging_classification="spark-log4j2" if has_log4j2 else "spark-log4j",
        loads_defaults=spark >= (4, 0),
    )


# documented: AWS's page says it. partly assumed: AWS's page names the Spark minor version; the rest comes from an old
# copy of a page or from a neighbouring release. reported: users of the release say it, and no page of AWS was found.
Evidence = Literal["documented", "partly assumed", "reported"]

LOOKED_UP = "2026-11-22"
# The label of a job that names none; `cdk/stacks/analytics.py` uses the same.
DEFAULT_LABEL = "emr-spark-8.0.0"
EMR = "emr"
SERVERLESS = "emr-serverless"
_GUIDE = "https://docs.aws.amazon.com/emr/latest/ReleaseGuide/"
_SERVERLESS_GUIDE = "https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/"
_LABEL = re.compile(r"emr-(spark-)?(\d+)\.(\d+)(?:\.(\d+)|-preview)")


class UnknownRelease(LookupError):
    """The table has no such label. `hint` says why AWS may have the label all the same; else it is empty."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.hint = _hint(label)
        super().__init__(f"no release {label} of EMR is known; {self.hint}".removesuffix("; "))


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One release.

    Attributes:
        label: `emr-7.13.0`.
        spark: EMR's own version, `3.5.6-amzn-2`.
        hadoop: EMR's own version of Hadoop; empty when no page names it.
        pythons: the Python versions on the image that PySpark can run with, such as `3.9`.
        python: the version that PySpark uses unless a job names another.
        system_python: the version of `python3` and `pip3` on a cluster's machines.
        java: the Java feature release that Spark runs on unless a job names another.
        scala: the version that Spark was built with.
        services: `emr` (on EC2), `emr-serverless`.
        date: the day on which this was looked up.
        source: the address of the page.
        evidence: `documented`, `partly assumed`, or `reported` when the numbers are not AWS's own.
    """

    label: str
    spark: str
    hadoop: str
    pythons: tuple[str, ...]
    python: str
    system_python: str
    java: int
    scala: str
    services: tuple[str, ...]
    date: str
    source: str
    evidence: Evidence = "documented"

    @property
    def spark_version(self) -> str:
        """The community's version: `3.5.6`."""
        return self.spark.partition("-")[0]

    @property
    def spark_minor(self) -> Minor:
        """Major and minor version: `(3, 5)`."""
        return minor_of(self.spark_version)

    @property
    def image_pythons(self) -> tuple[Minor, ...]:
        """The Pythons of the image, PySpark's default first."""
        return tuple(minor_of(python) for python in dict.fromkeys((self.python, *self.pythons)))

    @property
    def has_kinesis_connector(self) -> bool:
        """Whether the image has the connector aws-kinesis (documented: emr-spark-structured-streaming-kinesis.html)."""
        return _version(self.label) >= (False, 7, 1, 0)


def release_of(label: str, service: str | None = None) -> Release:
    """Return the release of a label, of `service` (`emr`, `emr-serverless`) if one is given. Raises UnknownRelease."""
    release_known = _BY_LABEL.get(label)
    if release_known is None or service not in (None, *release_known.services):
        raise UnknownRelease(label)
    return release_known


def releases(service: str | None = None) -> list[Release]:
    """Return all releases, or those of `emr` or `emr-serverless`; the newest first."""
    return [release for release in _RELEASES if service is None or service in release.services]


def _hint(label: str) -> str:
    """Return why the table may lack a label that AWS has; empty when the text does not look like a label."""
    if re.fullmatch(r"emr-[45]\.\d+\.\d+", label):
        return "headrace has no releases before emr-6.0.0, whose Spark runs on no Java of today"
    match = _LABEL.fullmatch(label)
    if match is None:
        return ""
    own = [version for known in _BY_LABEL if (version := _version(known))[0] == bool(match[1])]
    if _version(label) > max(own):
        return f"headrace knows the releases that were documented by {LOOKED_UP}"
    return ""


def _version(label: str) -> tuple[bool, int, int, int]:
    match = _LABEL.fullmatch(label)
    assert match is not None, label
    return bool(match[1]), int(match[2]), int(match[3]), int(match[4] or -1)


def _spark_8(
    label: str,
    spark: str,
    hadoop: str,
    scala: str,
    source: str,
    *,
    pythons: tuple[str, ...],
    python: str = "3.11",
    services: tuple[str, ...] = (EMR, SERVERLESS),
) -> Release:
    return Release(
        label=label, spark=spark, hadoop=hadoop, pythons=pythons, python=python,
        system_python=python, java=17, scala=scala, services=services, date=LOOKED_UP, source=source,
    )  # fmt: skip


def _emr_7(
    minor: int,
    spark: str,
    hadoop: str,
    *,
    scala: str = "2.12.18",
    pythons: tuple[str, ...] = ("3.9", "3.11"),
    python: str = "3.9",
    source: str = "emr-release-app-versions-7.x.html",
    evidence: Evidence = "documented",
) -> Release:
    return Release(
        label=f"emr-7.{minor}.0", spark=spark, hadoop=hadoop, pythons=pythons, python=python,
        system_python="3.9", java=17, scala=scala, services=(EMR, SERVERLESS), date=LOOKED_UP, source=_GUIDE + source,
        evidence=evidence,
    )  # fmt: skip


def _emr_6(number: str, spark: str, hadoop: str, scala: str) -> Release:
    """A release of 6.x: Python 3.7 (and 2.7, which no Spark from 3.1 on takes) and Java 8; configuring-java8.html."""
    minor, patch = number.split(".")[1:]
    # "With Amazon EMR 6.6.0 and higher"; the patch releases are not in its list: release-versions.html.
    serverless = int(minor) >= 6 and patch == "0"
    return Release(
        label=f"emr-{number}", spark=spark, hadoop=hadoop, pythons=("3.7",), python="3.7",
        system_python="3.7", java=8, scala=scala, services=(EMR, SERVERLESS) if serverless else (EMR,), date=LOOKED_UP,
        source=_GUIDE + "emr-release-app-versions-6.x.html",
        evidence="documented" if int(minor) >= 8 and patch == "0" else "partly assumed",
    )  # fmt: skip


_RELEASES = (
    # EC2's page lists Python 3.11 and 3.13; EMR Serverless' adds 3.12.
    _spark_8(
        "emr-spark-8.1.0", "4.1.1-amzn-0", "3.4.2-amzn-3", "2.13.17",
        _GUIDE + "emr-spark810-release.html", pythons=("3.11", "3.12", "3.13"),
    ),
    _spark_8(
        "emr-spark-8.0.0", "4.0.2-amzn-0", "", "2.13.16",
        _GUIDE + "emr-spark800-release.html", pythons=("3.11", "3.12", "3.13"),
    ),
    _spark_8(
        "emr-spark-8.0-preview", "4.0.1-amzn-0", "", "2.13.16",
        _SERVERLESS_GUIDE + "release-version-emr-spark-8.0-preview.html",
        pythons=("3.9", "3.11", "3.12"), python="3.9", services=(SERVERLESS,),
    ),
    # AWS says that the release exists and has Spark 3.5 (emr-eks-spark-connect.html); users report the patch version.
    _emr_7(14, "3.5.8", "", python="3.11", source="Spark-release-history.html", evidence="reported"),
    # "Python 3.11 is now the default Python version for PySpark and Spark workloads. Python 3.9 remains the default for
    # all other applications" (emr-7130-release.html): so PySpark does not see packages that `pip3` installs.
    _emr_7(13, "3.5.6-amzn-2", "3.4.2-amzn-0", python="3.11"),
    _emr_7(12, "3.5.6-amzn-1", "3.4.1-amzn-4"),
    _emr_7(11, "3.5.6-amzn-0", "3.4.1-amzn-3"),
    _emr_7(10, "3.5.5-amzn-1", "3.4.1-amzn-2"),
    _emr_7(9, "3.5.5-amzn-0", "3.4.1-amzn-1"),
    _emr_7(8, "3.5.4-amzn-0", "3.4.1-amzn-0"),
    _emr_7(7, "3.5.3-amzn-1", "3.4.0-amzn-3"),
    _emr_7(6, "3.5.3-amzn-0", "3.4.0-amzn-2"),
    _emr_7(5, "3.5.2-amzn-1", "3.4.0-amzn-1"),
    _emr_7(4, "3.5.2-amzn-0", "3.4.0-amzn-0"),
    _emr_7(3, "3.5.1-amzn-1", "3.3.6-amzn-5"),
    _emr_7(2, "3.5.1-amzn-0", "3.3.6-amzn-4", scala="2.12.17"),
    _emr_7(1, "3.5.0-amzn-1", "3.3.6-amzn-3", scala="2.12.17"),
    _emr_7(0, "3.5.0-amzn-0", "3.3.6-amzn-2", scala="2.12.17", pythons=("3.9",)),
    _emr_6("6.15.0", "3.4.1-amzn-2", "3.3.6-amzn-1", "2.12.17"),
    _emr_6("6.14.0", "3.4.1-amzn-1", "3.3.3-amzn-6", "2.12.15"),
    _emr_6("6.13.0", "3.4.1-amzn-0", "3.3.3-amzn-5", "2.12.15"),
    _emr_6("6.12.0", "3.4.0-amzn-0", "3.3.3-amzn-4", "2.12.15"),
    _emr_6("6.11.1", "3.3.2-amzn-0.1", "3.3.3-amzn-3.1", "2.12.15"),
    _emr_6("6.11.0", "3.3.2-amzn-0", "3.3.3-amzn-3", "2.12.15"),
    _emr_6("6.10.1", "3.3.1-amzn-0.1", "3.3.3-amzn-2.1", "2.12.15"),
    _emr_6("6.10.0", "3.3.1-amzn-0", "3.3.3-amzn-2", "2.12.15"),
    _emr_6("6.9.1", "3.3.0-amzn-1.1", "3.3.3-amzn-1.1", "2.12.15"),
    _emr_6("6.9.0", "3.3.0-amzn-1", "3.3.3-amzn-1", "2.12.15"),
    _emr_6("6.8.1", "3.3.0-amzn-0.1", "3.2.1-amzn-8.1", "2.12.15"),
    _emr_6("6.8.0", "3.3.0-amzn-0", "3.2.1-amzn-8", "2.12.15"),
    _emr_6("6.7.0", "3.2.1-amzn-0", "3.2.1-amzn-7", "2.12.15"),
    _emr_6("6.6.0", "3.2.0-amzn-0", "3.2.1-amzn-6", "2.12.15"),
    _emr_6("6.5.0", "3.1.2-amzn-1", "3.2.1-amzn-5", "2.12.10"),
    _emr_6("6.4.0", "3.1.2-amzn-0", "3.2.1-amzn-4", "2.12.10"),
    _emr_6("6.3.1", "3.1.1", "3.2.1", "2.12.10"),
    _emr_6("6.3.0", "3.1.1-amzn-0", "3.2.1-amzn-3", "2.12.10"),
    _emr_6("6.2.1", "3.0.1", "3.2.1-amzn-2.1", "2.12.10"),
    _emr_6("6.2.0", "3.0.1-amzn-0", "3.2.1-amzn-2", "2.12.10"),
    _emr_6("6.1.1", "3.0.0", "3.2.1-amzn-1.1", "2.12.10"),
    _emr_6("6.1.0", "3.0.0", "3.2.1", "2.12.10"),
    _emr_6("6.0.1", "2.4.4", "3.2.1", "2.12.10"),
    _emr_6("6.0.0", "2.4.4", "3.2.1", "2.12.10"),
)  # fmt: skip
_BY_LABEL = {release.label: release for release in _RELEASES}
