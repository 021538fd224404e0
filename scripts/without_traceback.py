"""Runs the `main` of the module in the first argument; Ctrl-C ends it without a traceback, also during imports."""

from __future__ import annotations

import importlib
import sys

from headrace.cli.interrupts import INTERRUPTED, interruptible, leave_at_once

if __name__ == "__main__":
    leave_at_once()
    module = importlib.import_module(sys.argv.pop(1))
    try:
        with interruptible():
            code = module.main()
    except KeyboardInterrupt:
        code = INTERRUPTED
    raise SystemExit(code)
