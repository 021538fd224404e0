"""Parses `spark-submit`'s arguments: options, application, properties, deploy mode.

Copies a submission's files from S3 to this machine, and replaces their URIs by the copies' paths.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.core.ports import BucketNotFound, ObjectNotFound, ObjectStore
from headrace.spark_submit import JobRefused

_FILE_LISTS = frozenset({"--py-files", "--files", "--jars", "--archives"})


def local_submission(
    submission: Submission, local: Callable[[str], str], local_archive: Callable[[str], str]
) -> Submission:
    """Return a submission with local paths; `local` and `local_archive` fetch a URI and return its path."""
    options: list[tuple[str, str | None]] = []
    for name, value in submission.options:
        if name in _FILE_LISTS and value is not None:
            fetched = local_archive if name == "--archives" else local
            value = ",".join(fetched(item) for item in value.split(",") if item)
        options.append((name, value))
    return Submission(options, local(submission.application), submission.arguments)


def local_copy(objects: ObjectStore, folder: Path, uri: str) -> str:
    """Fetch `s3://bucket/key#name` into a folder and return its local path; return any other value unchanged."""
    path, mark, name = uri.partition("#")
    if not path.startswith(("s3://", "s3a://", "s3n://")):
        return uri
    return f"{fetch(objects, path, folder)}{mark}{name}"


def fetch(objects: ObjectStore, uri: str, folder: Path) -> Path:
    """Copy the object `uri` names into `folder`. Raises JobRefused."""
    bucket, _, key = uri.partition("://")[2].partition("/")
    name = key.rpartition("/")[2]
    if name in ("", ".", ".."):
        raise JobRefused(f"{uri} does not name an object.")
    try:
        source = objects.file(bucket, key)
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, folder / name)
    except BucketNotFound:
        raise JobRefused(f"{uri} cannot be read: there is no bucket {bucket}.") from None
    except (ObjectNotFound, FileNotFoundError):
        raise JobRefused(f"{uri} cannot be read: there is no such object.") from None
    return folder / name


# The options of spark-submit without a value; all others have one.
_SWITCHES = frozenset({"--verbose", "-v", "--supervise", "--load-spark-defaults"})
# The properties that name files as an option does: Spark's own, which the option overrides, and YARN's, which adds
# (SparkSubmitArguments and SparkSubmit).
_FILE_PROPERTIES = {
    "--files": ("spark.files", "spark.yarn.dist.files"),
    "--archives": ("spark.archives", "spark.yarn.dist.archives"),
    "--jars": ("spark.jars", "spark.yarn.dist.jars"),
    "--py-files": ("spark.submit.pyFiles", "spark.yarn.dist.pyFiles"),
}


@dataclass(frozen=True, slots=True)
class Submission:
    """A parsed command line: options in order (None if one takes no value), the application, its arguments."""

    options: list[tuple[str, str | None]]
    application: str
    arguments: list[str]


def parse_submission(arguments: Sequence[str]) -> Submission:
    """Parse the arguments of `spark-submit`. Raises JobRefused."""
    options: list[tuple[str, str | None]] = []
    index = 0
    while index < len(arguments) and arguments[index].startswith("-"):
        name, equals, value = arguments[index].partition("=")
        index += 1
        if name in _SWITCHES:
            options.append((name, None))
        elif equals:
            options.append((name, value))
        elif index < len(arguments):
            options.append((name, arguments[index]))
            index += 1
        else:
            raise JobRefused(f"spark-submit's option {name} lacks its value.")
    if index == len(arguments):
        raise JobRefused("spark-submit is given no application to run.")
    return Submission(options, arguments[index], list(arguments[index + 1 :]))


def option_values(submission: Submission, *names: str) -> list[str]:
    """Return the values of an option, given by all its names, in order."""
    return [value for name, value in submission.options if name in names and value is not None]


def file_items(submission: Submission, option: str) -> list[str]:
    """Return the files of `--files`, `--archives`, `--jars` or `--py-files`; the last of several options counts."""
    return [item for value in option_values(submission, option)[-1:] for item in _split(value)]


def with_file_options(
    submission: Submission, defaults: Mapping[str, str], *, yarn: bool
) -> Submission:
    """Return a submission whose options name all files that properties name too; `yarn`: also YARN's properties."""
    properties = properties_of(submission, defaults)
    options = [option for option in submission.options if option[0] not in _FILE_PROPERTIES]
    for option, (own, of_yarn) in _FILE_PROPERTIES.items():
        items = file_items(submission, option) or _split(properties.get(own, ""))
        items += _split(properties.get(of_yarn, "")) if yarn else []
        if items:
            options.append((option, ",".join(items)))
    return Submission(options, submission.application, submission.arguments)


def expanded_by_yarn(submission: Submission) -> Submission:
    """Return a submission with the arguments that a driver in a YARN container gets.

    YARN expands its own `{{NAME}}` in a container's command on Linux, in the application's arguments too (observed:
    Yelp/mrjob #2070; Hadoop's ContainerLaunch.expandEnvironment): so nested JSON loses its last braces.
    """
    arguments = [a.replace("{{", "$").replace("}}", "") for a in submission.arguments]
    return Submission(submission.options, submission.application, arguments)


def _split(value: str) -> list[str]:
    return [item.strip() for item in value.split(",") if item.strip()]


def properties_of(submission: Submission, defaults: Mapping[str, str]) -> dict[str, str]:
    """Return the job's Spark properties: `defaults`, overridden by each `--conf`."""
    properties = dict(defaults)
    for setting in option_values(submission, "--conf", "-c"):
        key, _, value = setting.partition("=")
        properties[key] = value
    return properties


def deploy_mode(submission: Submission, defaults: Mapping[str, str]) -> str:
    """Return the deploy mode, `client` or `cluster`. Raises JobRefused with Spark's sentence.

    The option overrides `--conf spark.submit.deployMode`, which overrides `defaults` (SparkSubmitArguments).
    """
    properties = properties_of(submission, defaults)
    modes = option_values(submission, "--deploy-mode")
    mode = modes[-1] if modes else properties.get("spark.submit.deployMode", "client")
    if mode not in ("client", "cluster"):
        raise JobRefused('--deploy-mode must be either "client" or "cluster"')
    masters = option_values(submission, "--master")
    master = masters[-1] if masters else properties.get("spark.master", "yarn")
    if mode == "cluster" and master.startswith("local"):
        raise JobRefused('Cluster deploy mode is not compatible with master "local"')
    return mode
