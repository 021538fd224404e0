"""Makes the zip that brings the Kinesis source to a cluster: `spark-submit --py-files s3://…/headrace_spark.zip`.

    python -m headrace.spark.package headrace_spark.zip

A job that is given it so says `headrace.spark.registering.register(spark)` once: Spark looks for sources on the
PYTHONPATH that spark-submit was started with, and not into `--py-files`. Steps on the local cloud need neither.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

_HERE = Path(__file__).parent
# The same files give the same bytes, so that an unchanged zip is an unchanged object.
_EPOCH = (1980, 1, 1, 0, 0, 0)


def build(path: Path) -> Path:
    """Write the zip to `path`, replacing what was there; return `path`."""
    entries = {"headrace/__init__.py": b""}
    for file in sorted(_HERE.glob("*.py")):
        entries[f"headrace/spark/{file.name}"] = file.read_bytes()
    # Not `pyspark_aws_kinesis`: on EMR the image's own connector answers to that name.
    for file in sorted((_HERE / "autoload" / "pyspark_headrace").rglob("*.py")):
        entries[file.relative_to(_HERE / "autoload").as_posix()] = file.read_bytes()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)
    return path


if __name__ == "__main__":
    build(Path(sys.argv[1]))
