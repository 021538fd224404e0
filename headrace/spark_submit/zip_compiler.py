"""Compiles the modules in the zips from which Spark's Python processes import PySpark.

Workers, planners and drivers import PySpark from `python/lib/*.zip` of SPARK_HOME, where Python cannot store compiled
code, so each process compiles 150 modules again, which takes half a second of processor time. This module adds each
module's compiled code to the zip, once. An interpreter of another version ignores it and compiles as before.

This file is also the program that does it, run with the interpreter that will use the code: `python zip_compiler.py
ZIP...`. It runs on Python 3.7 and newer, without headrace.
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
    """Compile the modules in the zips of a SPARK_HOME, if needed; return None, or why it failed.

    Processes that have a zip open keep the old one. After a failure the zips are unchanged.
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
    """Replace a zip by one with compiled modules, unless it already has them."""
    # A temporary file is private to its owner, but other users may run Spark.
    mode = path.stat().st_mode & 0o777
    folder = Path(tempfile.mkdtemp(prefix=".compiled-", dir=str(path.parent)))
    try:
        with zipfile.ZipFile(path) as zip_file:
            if any(name.endswith(".pyc") for name in zip_file.namelist()):
                return
            part = folder / "part.zip"
            with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
                for entry in zip_file.infolist():
                    source = zip_file.read(entry)
                    archive.writestr(entry, source)
                    if entry.filename.endswith(".py"):
                        code = _code(source, path / entry.filename, folder)
                        archive.writestr(entry.filename + "c", code)
        part.chmod(mode)
        part.replace(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _code(source: bytes, name: Path, folder: Path) -> bytes:
    """Return the content of a module's `.pyc`, compiled in `folder`; tracebacks show the module as `name`."""
    plain, compiled = folder / "module.py", folder / "module.pyc"
    plain.write_bytes(source)
    # Valid regardless of the source's time: the source is in the same zip.
    how = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(plain), str(compiled), str(name), doraise=True, invalidation_mode=how)
    return compiled.read_bytes()


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        _compile(Path(argument))
