"""Where tests run: in headrace's own environment, or in that of a Spark under test, which has little of it.

`scripts/test --spark` names the interpreter of the former in HEADRACE_PYTHON; what runs there may be Python 3.9.
"""

from __future__ import annotations

import os
import sys


def cloud_python() -> str:
    """Return the interpreter that has all of headrace: the cloud, the flights' events and the CDK are its."""
    return os.environ.get("HEADRACE_PYTHON") or sys.executable


def is_own() -> bool:
    """Whether these tests run in headrace's own environment."""
    return "HEADRACE_PYTHON" not in os.environ
