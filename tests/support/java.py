"""A `java` for tests: their JVMs live for seconds, and half of their processor time would go into compiling well."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import tempfile
from pathlib import Path

_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_MARK = "HEADRACE_TESTS_JAVA"


def compile_little() -> None:
    """Put a `java` before the others, for this process and all that it starts: the one that was found, with options.

    Spark and the jobs that a cloud starts take it from JAVA_HOME or PATH, where no variable with options would reach
    them. From PATH alone only spark-submit's own short JVM would come: without JAVA_HOME it starts the job's JVM by its
    own path.
    Without a Java, or when a parent has done it, nothing happens.
    """
    home = os.environ.get("JAVA_HOME")
    real = shutil.which("java", path=f"{home}/bin" if home else None)
    if real is None or _MARK in os.environ:
        return
    folder = Path(tempfile.mkdtemp(prefix="headrace-java-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(real)} {_OPTIONS} "$@"\n')
    program.chmod(0o755)
    os.environ[_MARK] = real
    os.environ["PATH"] = f"{program.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    os.environ["JAVA_HOME"] = str(folder)
