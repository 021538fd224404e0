"""Creates the environment of a job's Spark in the job's own process, which then runs the job.

    python -c BOOT PACKAGE_ROOT LABEL SPARK PYTHON CONNECTOR CONTROLLER COMMAND...

So cancelling the job also cancels the creation, and a cloud that is killed and started again finds the process like any
job's. The cloud's variables that pip needs are passed in one variable, which is removed before the job begins.

Provides headrace's replacement for `aws-kinesis`, the Spark connector in EMR's image, to jobs that name it.

The replacement is `headrace.spark` under the connector's name. On releases whose image has the connector, it is on the
path of jobs that name it (by its jar, or by `aws-kinesis` in their arguments, their file or their `--py-files`). Spark
needs PyArrow to load a data source written in Python, so PyArrow and boto3 are on that job's path too, although EMR's
image may lack them; the job's log says so. They fit the NumPy and the Python of the release's environment. On Spark 3.5
the replacement works only in Python jobs, when they read or write a stream.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import logging
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import headrace
from headrace.core.clock import SystemClock
from headrace.core.extras import Minor, format_minor, minor_of
from headrace.spark_submit import JobRefused
from headrace.spark_submit.arguments import Submission, option_values
from headrace.spark_submit.class_archive import make_archive
from headrace.spark_submit.emr_releases import release_of
from headrace.spark_submit.environments import (
    CACHE_VARIABLE,
    REUSE_VARIABLE,
    Environment,
    cache_folder,
    ensure,
    find_cached,
    hold_lock,
    python_for,
)
from headrace.spark_submit.job_context import Command
from headrace.spark_submit.logs import CONTROLLER, note
from headrace.spark_submit.sparks import JobSpark, facts_of, java_for

# Documented: jobs-spark-streaming-connectors.html (EMR Serverless), from 7.1.0 on.
FOLDER_ON_EMR = "/usr/share/aws/kinesis/"
_NAME = "aws-kinesis"
_OWN_NAME = "kinesis"
_OWN_CLASS = b"class KinesisDataSource("
# The methods of boto3 and its sessions whose first argument is a service.
_CLIENTS = ("client", "create_client", "resource")
_PACKAGES = ("pyarrow", "boto3")
# PySpark 3 needs NumPy 1, and PyArrow 26 refuses it (observed).
_PACKAGES_OF_SPARK_3 = ("pyarrow<26", "boto3")
# The dependencies of boto3, and the folders beside compiled packages.
_FILES = (
    *_PACKAGES, "pyarrow.libs", "botocore", "s3transfer", "jmespath", "dateutil", "six.py", "urllib3",
)  # fmt: skip
_SPARK = Path(headrace.__file__).parent / "spark"
# Spark 3.5 has no Python data sources, so headrace patches PySpark in the job's process.
_FIRST_WITH_SOURCES = (4, 0)

_LONGEST_SOURCE_BYTES = 4 * 1024 * 1024

NOTE = (
    "the job names EMR's connector aws-kinesis: headrace.spark answers for it, and it, PyArrow and boto3 are on the "
    "job's path for that; on EMR they need not be there, and a job that imports them itself must bring them"
)
NOTE_OWN = (
    "the job names kinesis: headrace.spark, PyArrow and boto3 are on the job's path for that; on EMR the job must "
    "bring them (docs/spark-kinesis.md)"
)
NOTE_TOO_OLD = "the job names EMR's connector aws-kinesis, which EMR's images have from emr-7.1.0 on: Spark fails"


def stand_in(spark: Minor) -> Path:
    """Return the folder for the job's PYTHONPATH that provides `aws-kinesis` for a Spark."""
    return _SPARK / ("connector" if spark >= _FIRST_WITH_SOURCES else "connector35")


def read_sources(submission: Submission, properties: Mapping[str, str]) -> list[bytes]:
    """Return the source of each module of a job with local files; none for a job in Java or Scala."""
    others = [*option_values(submission, "--py-files"), properties.get("spark.submit.pyFiles", "")]
    names = (submission.application, *(n for value in others for n in value.split(",")))
    return [source for name in names for source in _sources(Path(name))]


def _sources(file: Path) -> Iterator[bytes]:
    """Return the modules in a .py file, or in a .zip or .egg."""
    if not file.is_file():
        return
    if file.suffix == ".py":
        if file.stat().st_size <= _LONGEST_SOURCE_BYTES:
            yield file.read_bytes()
    elif zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            for entry in archive.infolist():
                if entry.filename.endswith(".py") and entry.file_size <= _LONGEST_SOURCE_BYTES:
                    yield archive.read(entry)


def with_connector(
    spark: JobSpark,
    submission: Submission,
    properties: Mapping[str, str],
    sources: Sequence[bytes],
) -> tuple[JobSpark, Submission]:
    """Return an image's Spark with headrace's Kinesis source, if the job names a connector that it stands in for.

    Return the submission too, without the connector's jar, which this machine does not have. `sources` are those of the
    job's modules: its file and its `--py-files`.
    """
    if spark.environment is None:
        return spark, _without_jar(submission)
    if names_connector(submission, properties, sources):
        has_it = spark.release is not None and spark.release.has_kinesis_connector
        note = NOTE if has_it else NOTE_TOO_OLD
        spark = replace(spark, connector=has_it, notes=(*spark.notes, note))
    if names_own_source(submission, spark, sources):
        spark = replace(spark, connector=True, notes=(*spark.notes, NOTE_OWN))
    return spark, _without_jar(submission)


def names_connector(
    submission: Submission, properties: Mapping[str, str], sources: Sequence[bytes]
) -> bool:
    """Return whether a job names the connector: its jar, or `aws-kinesis` in an argument or a string of its modules."""
    if any(_is_its_jar(jar) for jar in _jars(submission, properties)):
        return True
    if any(_NAME in argument for argument in submission.arguments):
        return True
    return any(_says_so(source) for source in sources)


def names_own_source(submission: Submission, spark: JobSpark, sources: Sequence[bytes]) -> bool:
    """Return whether a job names `kinesis`, the source of `headrace.spark`, and does not bring it.

    It is for Sparks that have sources in Python. What brings it is headrace_spark.zip. A service that a client of
    boto3 is for is no source.
    """
    if spark.traits.minor < _FIRST_WITH_SOURCES or any(_OWN_CLASS in one for one in sources):
        return False
    return _OWN_NAME in submission.arguments or any(
        _OWN_NAME in _strings(one, _OWN_NAME) for one in sources
    )


def _says_so(source: bytes) -> bool:
    """Return whether a string in a job's file has the connector's name; comments and docstrings do not count."""
    return any(_NAME in text for text in _strings(source, _NAME))


def _strings(source: bytes, name: str) -> Iterator[str]:
    """Yield the strings of a job's file without docstrings and the services of boto3's clients.

    Yields `name` if the file has that name and cannot be parsed.
    """
    if name.encode() not in source:
        return
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # Another Python's syntax, or no Python: the job itself reports the error.
        yield name
        return
    others: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            if node.body and isinstance(node.body[0], ast.Expr):
                others.add(id(node.body[0].value))
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _CLIENTS
        ):
            named = (word.value for word in node.keywords if word.arg == "service_name")
            others.update(map(id, (*node.args[:1], *named)))
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in others
        ):
            yield node.value


def _without_jar(submission: Submission) -> Submission:
    options: list[tuple[str, str | None]] = []
    for option, value in submission.options:
        name, equals, jars = (value or "").partition("=")
        if option == "--jars" and value is not None:
            value = _others(value)
            if not value:
                continue
        elif option in ("--conf", "-c") and name == "spark.jars":
            value = f"{name}{equals}{_others(jars)}"
        options.append((option, value))
    return Submission(options, submission.application, submission.arguments)


def _others(jars: str) -> str:
    return ",".join(jar for jar in jars.split(",") if not _is_its_jar(jar))


def source_folder(job: Path) -> Path:
    """Return a folder for the PYTHONPATH of the job in `job`: it has `headrace.spark`, nothing else of headrace."""
    folder = job / "source"
    package = folder / "headrace"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").touch()
    if not (package / "spark").is_symlink():
        (package / "spark").symlink_to(_SPARK)
    return folder


def packages_folder(environment: Environment) -> Path:
    """Return the folder of the packages that the source needs, whether it exists or not."""
    spark, python = format_minor(minor_of(environment.spark)), format_minor(environment.python)
    return cache_folder() / f"connector-{spark}-py{python}"


def is_made(environment: Environment) -> bool:
    """Return whether those packages are complete."""
    folder = packages_folder(environment)
    return all((folder / name).exists() for name in _PACKAGES)


def make_packages(environment: Environment) -> None:
    """Create the packages for a complete environment. Raises JobRefused.

    They are links to headrace's own if those run there, else pip's for its Python and NumPy.
    """
    folder = packages_folder(environment)
    with hold_lock(folder, log.info):
        if is_made(environment):
            return
        part = folder.with_name(f".{folder.name}.part")
        for left in (folder, part):
            shutil.rmtree(left, ignore_errors=True)
        part.mkdir()
        for path in _own_packages(environment.python):
            (part / path.name).symlink_to(path)
        if _problem(part, environment) is not None:
            shutil.rmtree(part)
            part.mkdir()
            _install(part, environment)
            problem = _problem(part, environment)
            if problem is not None:
                raise JobRefused(f"What stands in for EMR's connector does not run: {problem}")
        part.rename(folder)


def _install(folder: Path, environment: Environment) -> None:
    # The pip of the environment's own Python: with `--python-version`, pip heeds a package's Requires-Python only
    # where its index repeats it.
    pip = folder / ".pip"
    packages = (
        _PACKAGES if minor_of(environment.spark) >= _FIRST_WITH_SOURCES else _PACKAGES_OF_SPARK_3
    )
    for command in (
        [str(environment.interpreter), "-m", "venv", str(pip)],
        [
            str(pip / "bin" / "python"), "-m", "pip", "install", "--quiet",
            "--disable-pip-version-check", "--no-input", "--target", str(folder),
            "--only-binary", ":all:", *packages,
        ],
    ):  # fmt: skip
        problem = _run(command)
        if problem is not None:
            raise JobRefused(f"What stands in for EMR's connector cannot be installed: {problem}")
    shutil.rmtree(pip)


def _problem(folder: Path, environment: Environment) -> str | None:
    """Return why the packages in a folder cannot be imported beside the environment's own; None if they can."""
    names = ", ".join(_PACKAGES)
    program = f"import sys; sys.path.insert(0, sys.argv[1]); import {names}"
    return _run([str(environment.interpreter), "-c", program, str(folder)])


def _run(command: list[str]) -> str | None:
    """Run a command; return the last line of a failed one's output."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False,
        env={name: v for name, v in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")},
    )  # fmt: skip
    if done.returncode == 0:
        return None
    printed = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return printed[-1] if printed else "it printed nothing"


def _own_packages(python: Minor) -> Iterator[Path]:
    """Return the paths of headrace's own packages, if they are for this Python."""
    if python != sys.version_info[:2]:
        return
    spec = importlib.util.find_spec(_PACKAGES[0])
    for folder in (spec and spec.submodule_search_locations) or []:
        packages = Path(folder).parent
        yield from (path for name in _FILES if (path := packages / name).exists())


def _jars(submission: Submission, properties: Mapping[str, str]) -> list[str]:
    jar_lists = [*option_values(submission, "--jars"), properties.get("spark.jars", "")]
    return [jar for value in jar_lists for jar in value.split(",")]


def _is_its_jar(jar: str) -> bool:
    return jar.removeprefix("file://").startswith(FOLDER_ON_EMR)


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
    lacks_connector = spark.connector and not is_made(spark.environment)
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
        was_there = environment.whole
        ensure(
            environment,
            interpreter,
            say=lambda text: _note(Path(controller), text),
            mend=f"{build_command(label)}.",
        )
        # Linking takes half a second, and the archive 20: it is worth the wait only beside a download of minutes.
        if not was_there and not environment.home.is_symlink():
            _archive_classes(environment, Path(controller))
        if wants_connector:
            make_packages(environment)
        for line in facts_of(release_of(label), environment):
            _note(Path(controller), line)
    except JobRefused as error:
        _note(Path(controller), str(error))
        sys.exit(str(error))
    os.execvpe(command[0], command, environ)


def _archive_classes(environment: Environment, controller: Path) -> None:
    problem = make_archive(environment, *java_for(minor_of(environment.spark)))
    if problem is not None:
        _note(controller, f"no archive of Spark's classes, so jobs start more slowly: {problem}")


def _note(controller: Path, text: str) -> None:
    note(controller, SystemClock().now_ms(), text)
