"""Compiles the FileSystem for Spark jobs, `headrace/spark_submit/java/`, for Java 8: users have no Java compiler.

`python -m scripts.compile_java` writes the class and the SHA-256 of its source. With --check it writes nothing, and
exits 1 when the source has changed since the class was compiled. Compilers differ, so it does not compare classes.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from headrace.spark_submit.access import CLASSES, FILE_SYSTEM
from headrace.spark_submit.sparks import find_spark_home

SOURCE = CLASSES / f"{FILE_SYSTEM}.java"
COMPILED_FROM = CLASSES / f"{FILE_SYSTEM}.sha256"


def digest() -> str:
    """Return the SHA-256 of the source."""
    return hashlib.sha256(SOURCE.read_bytes()).hexdigest()


def compile_source() -> None:
    """Write the class beside its source. Raises CalledProcessError."""
    (hadoop,) = (Path(find_spark_home()) / "jars").glob("hadoop-client-api-*.jar")
    command = ["javac", "--release", "8", "-Xlint:-options", "-cp", str(hadoop), "-d", str(CLASSES)]
    subprocess.run([*command, str(SOURCE)], check=True)
    COMPILED_FROM.write_text(f"{digest()}\n", encoding="ascii")


def main() -> int:
    """Compile, or check."""
    if "--check" not in sys.argv[1:]:
        compile_source()
        return 0
    if COMPILED_FROM.read_text(encoding="ascii").strip() == digest():
        return 0
    print(
        f"{SOURCE.name} has changed since it was compiled: python -m scripts.compile_java",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
