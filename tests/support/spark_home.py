"""A stand-in for Spark: `spark-submit` that runs a shell script, so that jobs take milliseconds."""

from __future__ import annotations

from pathlib import Path

_SPARK_SUBMIT = """\
#!/bin/bash
while [ $# -gt 0 ]; do
  case "$1" in *.sh) exec bash "$@" ;; esac
  shift
done
echo "the stand-in for spark-submit runs *.sh only" >&2
exit 64
"""


def make_spark_home(folder: Path) -> Path:
    """Make a home for HEADRACE_SPARK_HOME, whose spark-submit runs the first argument that ends in .sh."""
    program = folder / "bin" / "spark-submit"
    program.parent.mkdir(parents=True)
    program.write_text(_SPARK_SUBMIT)
    program.chmod(0o755)
    return folder
