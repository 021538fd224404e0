"""Kappa: the view of all flights by reading the stream from its beginning with the speed layer's own code.

The arguments are `speed_view.py`'s without `--since`. A replay writes beside what is served, under an output and a
checkpoint of its own; once it has caught up, the readers are pointed to it. See `spark_jobs/views.py`.
"""

from __future__ import annotations

import sys

from spark_jobs import common, speed_view


def main(argv: list[str]) -> int:
    """Run the job; see the module."""
    arguments = common.parse(common.parser("replay", "The view of all flights, anew."), argv)
    arguments.since = None
    return common.run_job(
        "replay",
        lambda spark: speed_view.run(
            spark, common.source(spark, arguments, arguments.stream), arguments
        ),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
