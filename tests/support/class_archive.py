"""`python -m tests.support.class_archive [SPARK_HOME PYTHON]` makes the archive with which tests start Spark's JVMs.

It takes 20 seconds, once for each Spark, and each JVM afterwards 4 seconds of a processor less. The modules of PySpark
are compiled too: half a second for each Python process of Spark's. Without a Java or a Spark nothing is made: the tests
run without.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from headrace.spark_submit.class_archive import JOB
from headrace.spark_submit.zip_compiler import compile_modules
from tests.support.java import ARCHIVES, archive_of, make_java, real_java


def make(home: Path, python: Path) -> None:
    """Compile a Spark's modules, and make its archive for the `java` of this machine, unless they are there.

    Args:
        home: SPARK_HOME.
        python: an interpreter that imports that PySpark.
    """
    problem = compile_modules(home, python)
    if problem is not None:
        sys.stderr.write(f"headrace: the modules of {home} are not compiled: {problem}\n")
    java = real_java()
    if java is None:
        return
    archive, said = archive_of(home), archive_of(home).with_suffix(".java")
    version = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    if archive.is_file() and said.is_file() and said.read_text() == version:
        return
    ARCHIVES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="headrace-java-") as folder:
        made = make_java(Path(folder) / "java", java, makes_archive=True)
        environment = {**os.environ, **made, "SPARK_HOME": str(home), "PYSPARK_PYTHON": str(python)}
        environment.pop("PYTHONPATH", None)
        command = [str(python), str(JOB), folder]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, errors="replace", check=False
        )
    part = archive.with_name(f"{archive.name}.part")
    if done.returncode or not part.is_file():
        sys.stderr.write(f"headrace: no archive of {home}: {done.stderr[-2000:]}\n")
        return
    # The archive first: after a kill in between, it is made once more. The other way an old one would stay.
    part.rename(archive)
    said.write_text(version)


def main(arguments: list[str]) -> None:
    """Make the archive of a Spark, by default of the one that is installed beside headrace."""
    if arguments:
        make(Path(arguments[0]), Path(arguments[1]))
        return
    spec = importlib.util.find_spec("pyspark")
    for place in (spec and spec.submodule_search_locations) or []:
        make(Path(place), Path(sys.executable))


if __name__ == "__main__":
    main(sys.argv[1:])
