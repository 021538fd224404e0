"""The differences between the minor versions of Spark that jobs can use: Java, Python, settings, log4j."""

from __future__ import annotations

import functools
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.core.extras import Minor

_SPARK_CORE = re.compile(r"spark-core_[\d.]+-(\d+\.\d+\.\d+)\.jar")
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


def version_at(home: Path) -> str | None:
    """Return the version of the Spark in `home`, such as `4.0.2`; None if its jars do not show it."""
    names = (path.name for path in home.glob("jars/spark-core_*.jar"))
    return next((match[1] for name in names if (match := _SPARK_CORE.fullmatch(name))), None)


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
        loads_defaults: whether `--load-spark-defaults` can be used with `--properties-file` (SPARK-48392, 4.0).
    """

    minor: Minor
    pythons: Sequence[Minor]
    javas: Container[int]
    needed_java: str
    checkpoint_manager: str
    write_resolver: str
    has_log4j2: bool
    loads_defaults: bool

    @property
    def logging_classification(self) -> str:
        """The classification of EMR that configures its logging."""
        return "spark-log4j2" if self.has_log4j2 else "spark-log4j"


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
    return SparkTraits(
        minor=spark,
        pythons=tuple((3, minor) for minor in range(first[1], last[1] + 1)),
        javas=javas,
        needed_java=needed_java,
        checkpoint_manager=f"{checkpointing}.FileSystemBasedCheckpointFileManager",
        write_resolver=f"{runtime}.ResolveWriteToStream",
        has_log4j2=spark >= (3, 3),
        loads_defaults=spark >= (4, 0),
    )
