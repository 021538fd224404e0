"""The entry point of `headrace`: from its first line on, Ctrl-C ends the process quietly, even during imports."""

from __future__ import annotations

import os


def main() -> None:
    """Run the command that the arguments name, and exit with its code."""
    try:
        from headrace.cli.interrupts import leave_at_once

        leave_at_once()
    except KeyboardInterrupt:
        # Ctrl-C came between the start of Python and the line above.
        os._exit(130)
    from headrace.cli.commands import headrace
    from headrace.cli.interrupts import escape_unprintable_output

    escape_unprintable_output()
    headrace(prog_name="headrace")


if __name__ == "__main__":
    main()
