"""Where tests run: in headrace's own environment, or in that of a Spark under test, which has little of it.

`scripts/test --spark` names the interpreter of the former in HEADRACE_PYTHON; what runs there may be Python 3.9.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

# Tests that run once, in headrace's own environment: their jobs run on Sparks of the cloud's; a year takes minutes.
_OWN = {
    "spark": ("test_history.py", "test_labels.py", "test_programs.py", "test_steps.py"),
    "spark_jobs": (
        "test_convergence.py",
        "test_packages.py",
        "test_sql.py",
        "test_sql_late.py",
        "test_sql_tables.py",
        "test_step.py",
        "test_year.py",
    ),
}
# Tests with a cloud in their own process.
_CLOUD = {"spark": ("test_data_loss.py", "test_locales.py"), "spark_jobs": ()}
# Tests of what only Sparks from 4.0 on have.
_FROM_4_0 = {
    "spark": ("test_package.py", "test_sink.py", "test_source.py", "test_versions.py"),
    "spark_jobs": ("test_cascades.py",),
}
# Tests that import what is not written for Python 3.9.
_NEW_PYTHON = {
    "spark": ("test_credentials.py", "test_progress.py", "test_sink_records.py"),
    "spark_jobs": (),
}


def cloud_python() -> str:
    """Return the interpreter that has all of headrace: the cloud, the flights' events and the CDK are its."""
    return os.environ.get("HEADRACE_PYTHON") or sys.executable


def is_own() -> bool:
    """Whether these tests run in headrace's own environment."""
    return "HEADRACE_PYTHON" not in os.environ


def borrow() -> None:
    """Have what the environment of a Spark under test lacks be found in headrace's own, behind its own packages.

    For a cloud in the tests' own process; nothing is found where the Pythons differ.
    """
    if not is_own():
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        sys.path.append(str(Path(cloud_python()).parents[1] / "lib" / version / "site-packages"))


def left_out(folder: str) -> list[str]:
    """Return the test files of a folder that cannot run here."""
    found = [] if is_own() else [*_OWN[folder]]
    if importlib.util.find_spec("cbor2") is None:
        found += _CLOUD[folder]
    if importlib.util.find_spec("pyspark.sql.datasource") is None:
        found += _FROM_4_0[folder]
    if sys.version_info < (3, 11):
        found += _NEW_PYTHON[folder]
    return found
