"""Environments of Sparks that tests make in no time: links to a made-up PySpark, and interpreters that only pretend."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from headrace.core.extras import format_minor
from headrace.spark_submit.environments import Environment

HERE = (sys.version_info[0], sys.version_info[1])
# Plays `python -m venv FOLDER` and, as the interpreter that it so makes, `python -m pip install ...`, by PIP.
_PYTHON = """\
#!/bin/bash
# Asked for its version.
[ "$2" = -c ] && exec echo {python}
if [ "$2" = venv ]; then
  folder="${{@: -1}}"
  mkdir -p "$folder/bin" "$folder/lib/python{python}/site-packages"
  cp "$0" "$folder/bin/python"
  printf '#!%s/bin/python\\n' "$folder" > "$folder/bin/script"
  exit
fi
packages="$(dirname "$0")/../lib/python{python}/site-packages"
pyspark() {{
  mkdir -p "$packages/pyspark/bin" "$packages/pyspark/jars"
  touch "$packages/pyspark/bin/spark-submit" "$packages/pyspark/jars/spark-core_2.13-$1.jar"
}}
echo "$@" >> {log}
{pip}
"""


def make_donor(folder: Path, spark: str) -> Path:
    """Make an environment for HEADRACE_SPARK_REUSE, whose PySpark says a version and whose NumPy suits this Python."""
    packages = folder / "lib" / f"python{format_minor(HERE)}" / "site-packages"
    for name in ("pyspark/bin", "pyspark/jars", "py4j", "numpy"):
        (packages / name).mkdir(parents=True)
    (packages / "pyspark" / "bin" / "spark-submit").touch()
    (packages / "pyspark" / "jars" / f"spark-core_2.13-{spark}.jar").touch()
    return folder


def make_python(folder: Path, pip: str, version: str = format_minor(HERE)) -> Path:
    """Make an interpreter that pretends; `pip` is a line of bash for what `pip install` does: `pyspark 3.5.6`.

    It notes the arguments of pip in `pip.log` beside itself.
    """
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / f"python{version}"
    python.write_text(_PYTHON.format(python=version, log=folder / "pip.log", pip=pip))
    python.chmod(0o755)
    return python


def make_whole(environment: Environment, submit: str) -> None:
    """Make an environment as if it had been installed; `submit` is its spark-submit, a script."""
    program = environment.home / "bin" / "spark-submit"
    program.parent.mkdir(parents=True)
    (environment.home / "jars").mkdir()
    (environment.home / "jars" / f"spark-core_2.13-{environment.spark}.jar").touch()
    program.write_text(submit)
    program.chmod(0o755)
    environment.interpreter.parent.mkdir()
    environment.interpreter.symlink_to(sys.executable)
    (environment.folder / "headrace.json").write_text(json.dumps({"spark": environment.spark}))
