"""Writes the zip with the Kinesis source for clusters: `spark-submit --py-files s3://…/headrace_spark.zip`.

    python -m headrace.spark.package headrace_spark.zip

A job with this zip calls `headrace.spark.registering.register(spark)` once, because Spark looks for sources on the
PYTHONPATH of spark-submit and not in `--py-files`. Steps on the local cloud need neither.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

_HERE = Path(__file__).parent
# What the job compact folds with: it has the standard library alone, until it writes to an Iceberg table.
_CDC = ("__init__", "events", "iceberg_table")
# A fixed time, so that the same files give the same bytes and an unchanged zip is an unchanged object.
_EPOCH = (1980, 1, 1, 0, 0, 0)


def build(path: Path) -> Path:
    """Write the zip to `path`, replacing an existing file; return `path`."""
    entries = {"headrace/__init__.py": b""}
    for file in sorted(_HERE.glob("*.py")):
        entries[f"headrace/spark/{file.name}"] = file.read_bytes()
    for name in _CDC:
        entries[f"headrace/cdc/{name}.py"] = (_HERE.parent / "cdc" / f"{name}.py").read_bytes()
    # Without `pyspark_aws_kinesis`: EMR's image has the real connector of that name.
    for file in sorted((_HERE / "autoload" / "pyspark_headrace").rglob("*.py")):
        entries[file.relative_to(_HERE / "autoload").as_posix()] = file.read_bytes()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)
    return path


if __name__ == "__main__":
    build(Path(sys.argv[1]))
