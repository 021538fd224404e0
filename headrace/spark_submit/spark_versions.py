"""What differs between the minor versions of Spark that a job may be run with: Java, Python, settings, log4j."""

from __future__ import annotations

import re
from pathlib import Path

Minor = tuple[int, int]

_SPARK_CORE = re.compile(r"spark-core_[\d.]+-(\d+\.\d+\.\d+)\.jar")
_STREAMING = "org.apache.spark.sql.execution.streaming"
# The first and the last Python of each, from the classifiers on PyPI (looked up 2026-11-22). cloudpickle of 3.3 and
# before cannot read the bytecode of Python 3.11.
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


def version_at(home: Path) -> str | None:
    """Return the version of the Spark in `home`, `4.0.2`; None when its jars do not say it."""
    names = (path.name for path in home.glob("jars/spark-core_*.jar"))
    return next((found[1] for name in names if (found := _SPARK_CORE.fullmatch(name))), None)


def minor_of(version: str) -> Minor:
    """Return `(3, 5)` of `3.5.6`."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def dotted(minor: Minor) -> str:
    """Return `3.11` of `(3, 11)`."""
    return f"{minor[0]}.{minor[1]}"


def pythons(spark: Minor) -> list[Minor]:
    """Return the Pythons that a Spark runs with, oldest first; those of the newest known for one that is newer."""
    first, last = _PYTHONS.get(spark) or _PYTHONS[max(_PYTHONS)]
    return [(3, minor) for minor in range(first[1], last[1] + 1)]


def takes_java(spark: Minor, java: int) -> bool:
    """Whether a Spark runs on a Java. Documented: each version's overview page (spark.apache.org/docs)."""
    if spark >= (4, 0):
        return java >= 17
    if spark >= (3, 3):
        return java in (8, 11, 17)
    return java in ((8, 11) if spark >= (3, 0) else (8,))


def javas(spark: Minor) -> str:
    """Return which Java a Spark needs, in words."""
    if spark >= (4, 0):
        return "Java 17 or newer"
    if spark >= (3, 3):
        return "Java 8, 11 or 17"
    return "Java 8 or 11" if spark >= (3, 0) else "Java 8"


def checkpoint_manager(spark: Minor) -> str:
    """Return the class that writes checkpoints through Hadoop's FileSystem; 4.1 moved it (SPARK-52787)."""
    package = f"{_STREAMING}.checkpointing" if spark >= (4, 1) else _STREAMING
    return f"{package}.FileSystemBasedCheckpointFileManager"


def write_resolver(spark: Minor) -> str:
    """Return the class that warns when a streaming query begins; 4.1 moved it."""
    package = f"{_STREAMING}.runtime" if spark >= (4, 1) else _STREAMING
    return f"{package}.ResolveWriteToStream"


def has_log4j2(spark: Minor) -> bool:
    """Whether its logging is log4j 2 (SPARK-37814, 3.3); before, it is log4j 1."""
    return spark >= (3, 3)


def loads_defaults(spark: Minor) -> bool:
    """Whether `--load-spark-defaults` goes with `--properties-file` (SPARK-48392, 4.0)."""
    return spark >= (4, 0)
