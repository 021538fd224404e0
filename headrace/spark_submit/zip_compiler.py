"""Compiles the modules in the zips from which Spark's Python processes import PySpark.

A worker, a planner and a driver each import PySpark from `python/lib/*.zip` of SPARK_HOME, where Python cannot keep
compiled code: each process compiles 150 modules anew, half a second of a processor. Here each module's code is put into
the zip beside its source, once. An interpreter of another version does not take it, and compiles as before.

This file is also the program that does it, with the interpreter whose code it is: `python zip_compiler.py ZIP...`. It
runs on Python 3.7 and newer, without headrace.
"""

from __future__ import annotations

import py_compile
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path


def compile_modules(home: Path, interpreter: Path) -> str | None:
    """Compile what the zips of a SPARK_HOME hold, unless it is done; return None, or why it could not be done.

    Processes that have a zip open keep the old one. Whatever fails, the zips stay as they were.
    """
    zips = [str(path) for path in sorted(home.glob("python/lib/*.zip"))]
    if not zips:
        return None
    done = subprocess.run(
        [str(interpreter), "-I", __file__, *zips],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode == 0:
        return None
    return done.stderr.strip().rpartition("\n")[2] or f"{interpreter} ended with {done.returncode}"


def _compile(path: Path) -> None:
    """Replace a zip by one that has each module compiled beside its source, unless it is one."""
    # A temporary file is for its owner alone, but others may run Spark.
    mode = path.stat().st_mode & 0o777
    folder = Path(tempfile.mkdtemp(prefix=".compiled-", dir=str(path.parent)))
    try:
        with zipfile.ZipFile(path) as given:
            if any(name.endswith(".pyc") for name in given.namelist()):
                return
            part = folder / "part.zip"
            with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as made:
                for entry in given.infolist():
                    source = given.read(entry)
                    made.writestr(entry, source)
                    if entry.filename.endswith(".py"):
                        code = _code(source, path / entry.filename, folder)
                        made.writestr(entry.filename + "c", code)
        part.chmod(mode)
        part.replace(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _code(source: bytes, name: Path, folder: Path) -> bytes:
    """Return what a `.pyc` of a module holds, made in `folder`; tracebacks show the module as `name`."""
    plain, compiled = folder / "module.py", folder / "module.pyc"
    plain.write_bytes(source)
    # Taken whatever the time of the source, which is in the same zip.
    how = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(plain), str(compiled), str(name), doraise=True, invalidation_mode=how)
    return compiled.read_bytes()


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        _compile(Path(argument))
