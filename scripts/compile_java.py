"""Compiles the FileSystems for Spark jobs, `headrace/spark_submit/java/`, for Java 8: users have no Java compiler.

`python -m scripts.compile_java` writes the classes and the SHA-256 of their sources. With --check it writes nothing,
and exits 1 when a source has changed since it was compiled. Compilers differ, so it does not compare classes.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from headrace.spark_submit.job_context import CLASSES
from headrace.spark_submit.sparks import find_spark_home

SOURCES = sorted(CLASSES.glob("*.java"))


def digest(source: Path) -> str:
    """Return the SHA-256 of a source."""
    return hashlib.sha256(source.read_bytes()).hexdigest()


def compile_sources() -> None:
    """Write the classes beside their sources. Raises CalledProcessError."""
    (hadoop,) = (Path(find_spark_home()) / "jars").glob("hadoop-client-api-*.jar")
    command = ["javac", "--release", "8", "-Xlint:-options", "-cp", str(hadoop), "-d", str(CLASSES)]
    subprocess.run([*command, *map(str, SOURCES)], check=True)
    for source in SOURCES:
        source.with_suffix(".sha256").write_text(f"{digest(source)}\n", encoding="ascii")


def main() -> int:
    """Compile, or check."""
    if "--check" not in sys.argv[1:]:
        compile_sources()
        return 0
    changed = [
        source.name
        for source in SOURCES
        if source.with_suffix(".sha256").read_text(encoding="ascii").strip() != digest(source)
    ]
    for name in changed:
        print(
            f"{name} has changed since it was compiled: python -m scripts.compile_java",
            file=sys.stderr,
        )
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
