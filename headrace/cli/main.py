"""The entry point of `headrace`: from its first line on, Ctrl-C ends the process quietly, even during imports."""

from __future__ import annotations

import gc
import os

# New objects between two runs of the garbage collector; Python's default of 700 is reached after a few requests.
_CONTAINERS_BETWEEN_LOOKS = 50_000


def collect_garbage_seldom() -> None:
    """Make the garbage collector run seldom: looking at what stays again and again is a fifth of a start's time."""
    gc.set_threshold(_CONTAINERS_BETWEEN_LOOKS, 20, 20)


def main() -> None:
    """Run the command that the arguments name, and exit with its code."""
    try:
        from headrace.cli.interrupts import leave_at_once

        leave_at_once()
        # What is imported stays, and so do the events in an agent's channels: half of the time of a line.
        collect_garbage_seldom()
    except KeyboardInterrupt:
        # Ctrl-C came between the start of Python and the line above.
        os._exit(130)
    from headrace.cli.commands import headrace
    from headrace.cli.interrupts import escape_unprintable_output

    escape_unprintable_output()
    headrace(prog_name="headrace")


if __name__ == "__main__":
    main()
