"""Creates the environment of a job's Spark in the job's own process, which then runs the job.

    python -c BOOT PACKAGE_ROOT LABEL SPARK PYTHON CONNECTOR CONTROLLER COMMAND...

So cancelling the job also cancels the creation, and a cloud that is killed and started again finds the process like any
job's. The cloud's variables that pip needs are passed in one variable, which is removed before the job begins.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from dataclasses import replace
from pathlib import Path

from headrace.core.clock import SystemClock
from headrace.core.extras import format_minor, minor_of
from headrace.spark_submit import connector
from headrace.spark_submit.context import Command
from headrace.spark_submit.emr_releases import release_of
from headrace.spark_submit.environments import (
    CACHE_VARIABLE,
    REUSE_VARIABLE,
    ensure,
    find_cached,
    python_for,
)
from headrace.spark_submit.errors import JobRefused
from headrace.spark_submit.logs import CONTROLLER, note
from headrace.spark_submit.sparks import JobSpark, facts_of

log = logging.getLogger(__name__)

VARIABLE = "HEADRACE_MAKES"
_BOOT = "import sys; sys.path.insert(0, sys.argv.pop(1)); from headrace.spark_submit.making import main; main()"
_ROOT = Path(__file__).resolve().parents[2]
# The variables of the cloud's environment that pip and the search for interpreters read.
_NAMES = frozenset({
    CACHE_VARIABLE, REUSE_VARIABLE, "HOME", "PATH", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
    "PYENV_ROOT", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "LD_LIBRARY_PATH",
})  # fmt: skip
_PREFIXES = ("PIP_", "UV_")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


def must_be_made(spark: JobSpark) -> bool:
    """Return whether a Spark's environment, or the connector's packages, must be created before the job can run."""
    if spark.environment is None:
        return False
    lacks_connector = spark.connector and not connector.is_made(spark.environment)
    return lacks_connector or not spark.environment.whole


def with_spark(command: Command, spark: JobSpark, folder: Path) -> Command:
    """Return the command of a Spark job with its notes; it first creates the environment if there is none."""
    command = replace(command, notes=(*command.notes, *spark.notes))
    if not must_be_made(spark):
        return command
    assert spark.release is not None
    log.info(
        "Spark %s of %s is made first, for %s; once, and it takes minutes (ahead: %s)",
        spark.release.spark_version,
        spark.release.label,
        folder.name,
        build_command(spark.release.label),
    )
    arguments, environment = command_that_makes(
        spark, folder / CONTROLLER, command.arguments, command.environment
    )
    return replace(command, arguments=arguments, environment=environment)


def command_that_makes(
    spark: JobSpark, controller: Path, arguments: list[str], environment: dict[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Return the command and variables that create the environment of `spark` and then run `arguments`."""
    assert spark.release is not None
    assert spark.environment is not None
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _NAMES or name.startswith(_PREFIXES) or name.lower() in _PROXIES
    }
    command = [
        sys.executable, "-I", "-c", _BOOT, str(_ROOT), spark.release.label,
        spark.environment.spark, format_minor(spark.environment.python),
        "connector" if spark.connector else "", str(controller),
    ]  # fmt: skip
    return [*command, *arguments], {**environment, VARIABLE: json.dumps(kept)}


def build_command(label: str) -> str:
    """Return the command with which a user creates a label's environment in advance."""
    return f"headrace spark install {label}"


def main() -> None:
    """Create the environment, then run the job; end with a sentence on stderr if the creation fails."""
    label, spark, python, wants_connector, controller, *command = sys.argv[1:]
    kept = json.loads(os.environ.pop(VARIABLE))
    environ = dict(os.environ)
    os.environ.clear()
    os.environ.update(kept)
    try:
        interpreter, version = python_for(spark, [minor_of(python)])
        environment = find_cached(spark, version)
        ensure(
            environment,
            interpreter,
            say=lambda text: _note(Path(controller), text),
            mend=f"{build_command(label)}.",
        )
        if wants_connector:
            connector.make_packages(environment)
        for line in facts_of(release_of(label), environment):
            _note(Path(controller), line)
    except JobRefused as error:
        _note(Path(controller), str(error))
        sys.exit(str(error))
    os.execvpe(command[0], command, environ)


def _note(controller: Path, text: str) -> None:
    note(controller, SystemClock().now_ms(), text)
