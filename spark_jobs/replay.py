"""Kappa architecture: computes the view of all flights from the whole stream, with the speed layer's code.

The arguments are `speed_view.py`'s without `--since`. A replay writes to a separate output and checkpoint, beside the
served view; once it has caught up, point the readers to it. See `spark_jobs/common/views.py`.
"""

from __future__ import annotations

import sys

from spark_jobs import speed_view
from spark_jobs.common import options, queries

NEEDS_SPARK = "3.5"


def main(argv: list[str]) -> int:
    """Run the job; see the module."""
    arguments = options.parse(
        options.parser("replay", "Computes the view of all flights again."), argv
    )
    arguments.since = None
    return queries.run_stream_job("replay", speed_view.run, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
