"""Turns the arguments of `spark-submit` on EMR into those for this machine. No I/O here.

`--master` and `--deploy-mode` are replaced by `local[*]` in client mode, whatever the job's properties say of them;
URIs of the application, `--py-files`, `--files`, `--jars` and `--archives` are replaced by local copies; the rest is
passed on. `deploy_mode` returns the mode that was asked for; the caller decides what it means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from headrace.spark_submit.errors import JobRefused
from headrace.spark_submit.spark_versions import (
    Minor,
    checkpoint_manager,
    has_log4j2,
    loads_defaults,
    write_resolver,
)

# spark-submit's switches that take no value; every other --option takes one.
_SWITCHES = frozenset({"--verbose", "-v", "--supervise", "--load-spark-defaults"})
_REPLACED = frozenset({"--master", "--deploy-mode"})
_FILE_LISTS = frozenset({"--py-files", "--files", "--jars", "--archives"})

# The JVM compiles with its optimizing compiler ten times later than by default: most steps are over before that pays.
# Measured on `departures` over 27,004 records: 22 s of CPU instead of 31.
_JAVA_OPTIONS = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)

_LOG4J2 = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{yy/MM/dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.resolver.name = {resolver}
logger.resolver.level = error
"""
_LOG4J1 = """\
log4j.rootCategory=WARN, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{{yy/MM/dd HH:mm:ss}} %p %c{{1}}: %m%n
log4j.logger.org.apache.hadoop.util.NativeCodeLoader=ERROR
log4j.logger.{resolver}=ERROR
"""


@dataclass(frozen=True, slots=True)
class Submission:
    """A parsed command line: options in order (a switch has the value None), the application, its arguments."""

    options: list[tuple[str, str | None]]
    application: str
    arguments: list[str]


def parse_submission(arguments: Sequence[str]) -> Submission:
    """Parse what follows `spark-submit`. Raises JobRefused."""
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
    """Return the values of an option by its names, in order."""
    return [value for name, value in submission.options if name in names and value is not None]


def properties_of(submission: Submission, defaults: Mapping[str, str]) -> dict[str, str]:
    """Return the job's Spark properties: `defaults`, and over them each `--conf`."""
    properties = dict(defaults)
    for setting in option_values(submission, "--conf", "-c"):
        key, _, value = setting.partition("=")
        properties[key] = value
    return properties


def deploy_mode(submission: Submission, defaults: Mapping[str, str]) -> str:
    """Return where the driver is to run, `client` or `cluster`. Raises JobRefused in Spark's words.

    The option wins over `--conf spark.submit.deployMode`, and this over `defaults` (SparkSubmitArguments).
    """
    properties = properties_of(submission, defaults)
    given = option_values(submission, "--deploy-mode")
    mode = given[-1] if given else properties.get("spark.submit.deployMode", "client")
    if mode not in ("client", "cluster"):
        raise JobRefused('--deploy-mode must be either "client" or "cluster"')
    masters = option_values(submission, "--master")
    master = masters[-1] if masters else properties.get("spark.master", "yarn")
    if mode == "cluster" and master.startswith("local"):
        raise JobRefused('Cluster deploy mode is not compatible with master "local"')
    return mode


def local_arguments(
    submission: Submission, local: Callable[[str], str], *, spark: Minor
) -> list[str]:
    """Return the arguments for this machine and a Spark; `local` fetches a URI and returns its path."""
    # Given as options, for a property `spark.submit.deployMode` would win over their absence.
    arguments = ["--master", "local[*]", "--deploy-mode", "client"]
    if option_values(submission, "--properties-file") and loads_defaults(spark):
        # Otherwise Spark would not read the file with headrace's settings, which lead `s3://` to this cloud.
        arguments.append("--load-spark-defaults")
    for name, value in submission.options:
        if name in _REPLACED:
            continue
        if name in _FILE_LISTS and value is not None:
            value = ",".join(local(item) for item in value.split(",") if item)
        arguments += [name] if value is None else [name, value]
    return [*arguments, local(submission.application), *submission.arguments]


def logging_file(spark: Minor) -> tuple[str, str]:
    """Return the name and the text of the file that has a Spark log to stderr what matters."""
    resolver = write_resolver(spark)
    if has_log4j2(spark):
        return "log4j2.properties", _LOG4J2.format(resolver=resolver)
    return "log4j.properties", _LOG4J1.format(resolver=resolver)


def spark_properties(
    *, buckets: Mapping[str, Path], cores: int, spark: Minor, file_system: str = ""
) -> dict[str, str]:
    """Return the settings that lead a Spark's `s3://` to this cloud's plain files and suit a small machine.

    A bucket made after the step has begun is not among `buckets`: the step cannot see it. `file_system` is the class
    that answers for `s3://`, one of Hadoop's ViewFs; empty for Hadoop's own.
    """
    overload = file_system or "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"
    properties = {
        "spark.hadoop.fs.s3.impl": overload,
        "spark.hadoop.fs.s3a.impl": overload,
        "spark.hadoop.fs.viewfs.overload.scheme.target.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "spark.sql.streaming.checkpointFileManagerClass": checkpoint_manager(spark),
        "spark.driver.defaultJavaOptions": _JAVA_OPTIONS,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.showConsoleProgress": "false",
        # Two hundred, Spark's own, is for clusters; a job's or a cluster's setting wins.
        "spark.sql.shuffle.partitions": str(max(2, cores)),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    for bucket, folder in buckets.items():
        uri = "file://" + quote(str(folder.absolute()))
        properties[f"spark.hadoop.fs.viewfs.mounttable.{bucket}.linkFallback"] = uri
    return properties


def properties_file(properties: Mapping[str, str], *, separator: str = " ") -> str:
    """Return a Java properties file, in ASCII: some readers take its bytes for ISO 8859-1, others for UTF-8."""
    return "".join(
        f"{in_ascii(key)}{separator}{in_ascii(_escaped(value))}\n"
        for key, value in properties.items()
    )


def in_ascii(text: str) -> str:
    """Return a text for a properties file: what is not ASCII becomes Java's escapes of four hexadecimal digits."""
    units = text.encode("utf-16-be", "surrogatepass")
    pairs = (int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2))
    return "".join(chr(unit) if unit < 0x80 else f"\\u{unit:04x}" for unit in pairs)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
