"""Kappa architecture: computes the view of all flights from the whole stream, with the speed layer's code.

The arguments are `speed_view.py`'s without `--since`. A replay writes to a separate output and checkpoint, beside the
served view; once it has caught up, point the readers to it. See `spark_jobs/common/views.py`.
"""

from __future__ import annotations

import sys

from spark_jobs import speed_view
from spark_jobs.common.job import Job

NEEDS_SPARK = "3.5"
JOB = Job(
    "replay",
    "Computes the view of all flights again.",
    sink=speed_view.write_view,
)


if __name__ == "__main__":
    sys.exit(JOB.main())
