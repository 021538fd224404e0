"""The configuration folder of a Spark job (`spark-defaults.conf`, logging, UI), and where its UI and events then are.

Both are in the job's folder. The driver's log4j settings write its UI's port to `conf/ui.log`, which works for Python
and JVM programs and adds nothing to their output. The event logs are in `events/`; their names contain the application
ids.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote
from xml.sax.saxutils import escape

from headrace.spark_submit import JobRefused
from headrace.spark_submit.arguments import Submission, option_values
from headrace.spark_submit.emr_releases import SparkTraits
from headrace.spark_submit.sparks import JobSpark, is_python_setting

# The JVM uses its optimizing compiler ten times later than by default, because most steps end before it pays off.
# Measured on `departures` over 27,004 records: 22 s of CPU instead of 31.
_JAVA_OPTIONS = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)

_OVERLOAD = "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"
_MOUNT = "fs.viewfs.mounttable.{}.linkFallback"
# No bucket has capital letters.
_HDFS_MOUNTS = "HDFS"

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
# Spark's minimum. The files in the middle of a long job's log can then be emptied one by one (see `history.py`).
ROLL_AT_MIB = 10

_UI_LOGGING = """\
appender.headrace_ui.type = File
appender.headrace_ui.name = headrace_ui
appender.headrace_ui.fileName = {path}
appender.headrace_ui.layout.type = PatternLayout
appender.headrace_ui.layout.pattern = %m%n
appender.headrace_ui.filter.ui.type = RegexFilter
appender.headrace_ui.filter.ui.regex = .*(service 'SparkUI'|Spark web UI).*
logger.headrace_port.name = org.apache.spark.util.Utils
logger.headrace_port.level = info
logger.headrace_port.additivity = false
logger.headrace_port.appenderRef.ui.ref = headrace_ui
logger.headrace_port.appenderRef.console.ref = console
logger.headrace_port.appenderRef.console.level = warn
logger.headrace_ui.name = org.apache.spark.ui.SparkUI
logger.headrace_ui.level = info
logger.headrace_ui.additivity = false
logger.headrace_ui.appenderRef.ui.ref = headrace_ui
logger.headrace_ui.appenderRef.console.ref = console
logger.headrace_ui.appenderRef.console.level = warn
"""


def write_configuration(
    submission: Submission,
    folder: Path,
    spark: JobSpark,
    properties: dict[str, str],
    *,
    defaults: Mapping[str, str],
    logging: Mapping[str, str],
) -> Submission:
    """Write a job's folder `conf`, and return its submission with this machine's Pythons and files.

    Args:
        submission: the arguments of `spark-submit`.
        folder: the job's folder.
        spark: the Spark that runs the job.
        properties: headrace's settings, from `spark_properties`.
        defaults: the classification `spark-defaults`; it overrides headrace's settings.
        logging: the classification `spark-log4j2`, or `spark-log4j` for a Spark before 3.3.

    Raises:
        JobRefused: the job's properties file cannot be read, or the image has no such Python.
    """
    conf = folder / "conf"
    conf.mkdir(exist_ok=True)
    properties = {**properties, **ui_properties(folder)}
    submission = _with_pythons_of(spark, submission)
    if not spark.traits.loads_defaults:
        submission = _with_properties_file(submission, properties, conf)
    properties.update({name: _python(spark, name, value) for name, value in defaults.items()})
    (folder / EVENTS).mkdir(exist_ok=True)
    (conf / "spark-defaults.conf").write_text(properties_file(properties), encoding="ascii")
    name, text = build_logging_file(spark.traits)
    if spark.traits.has_log4j2:
        text += ui_logging(folder)
    # Later lines override earlier ones, so the job's settings are appended to headrace's.
    log_settings = properties_file(logging, separator=" = ")
    (conf / name).write_text(text + log_settings, encoding="ascii")
    return submission


def build_logging_file(spark: SparkTraits) -> tuple[str, str]:
    """Return the name and the text of the logging configuration, which logs warnings to stderr."""
    resolver = spark.write_resolver
    if spark.has_log4j2:
        return "log4j2.properties", _LOG4J2.format(resolver=resolver)
    return "log4j.properties", _LOG4J1.format(resolver=resolver)


def spark_properties(
    *,
    buckets: Mapping[str, Path],
    cores: int,
    spark: SparkTraits,
    file_system: str = "",
    hdfs: Path | None = None,
    java_options: Sequence[str] = (),
) -> dict[str, str]:
    """Return the settings that map `s3://` and `hdfs:///` to files, and settings for a small machine.

    `file_system` is the class for `s3://`, a subclass of Hadoop's ViewFileSystem, which also finds buckets that are
    created after the job has begun; empty for Hadoop's own class. `hdfs` is the folder of `hdfs:///`; None without one.
    `java_options` are more options of the driver's JVM.
    """
    return {
        **{
            f"spark.hadoop.{name}": value
            for name, value in _file_systems(buckets, file_system, hdfs).items()
        },
        "spark.sql.streaming.checkpointFileManagerClass": spark.checkpoint_manager,
        "spark.driver.defaultJavaOptions": " ".join((_JAVA_OPTIONS, *java_options)),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.showConsoleProgress": "false",
        # Spark's default of 200 is for clusters; a job's or a cluster's setting overrides this one.
        "spark.sql.shuffle.partitions": str(max(2, cores)),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }


def _file_systems(
    buckets: Mapping[str, Path], file_system: str, hdfs: Path | None
) -> dict[str, str]:
    """Return Hadoop's settings that map `s3://` and `hdfs:///` to files."""
    properties = dict.fromkeys(
        (f"fs.{scheme}.impl" for scheme in ("s3", "s3a", "s3n")), file_system or _OVERLOAD
    )
    # java/LocalFiles.java: Hadoop's own start a program for each file that they make.
    properties["fs.file.impl"] = "LocalFiles"
    properties["fs.AbstractFileSystem.file.impl"] = "LocalFiles$Context"
    properties["fs.viewfs.overload.scheme.target.file.impl"] = "LocalFiles$Raw"
    for bucket, folder in buckets.items():
        properties[_MOUNT.format(bucket)] = _uri(folder)
        # For the buckets of later.
        properties["headrace.s3.folder"] = _uri(folder.parent)
    if hdfs is not None:
        properties["fs.hdfs.impl"] = file_system or _OVERLOAD
        # A URI without a host is looked up in this mount table.
        properties["fs.viewfs.mounttable.default.name.key"] = _HDFS_MOUNTS
        properties[_MOUNT.format(_HDFS_MOUNTS)] = _uri(hdfs)
    return properties


def hadoop_site(
    buckets: Mapping[str, Path],
    file_system: str,
    hdfs: Path | None,
    *,
    is_default: bool = False,
) -> str:
    """Return a Hadoop configuration file; with `is_default`, paths without a scheme are in HDFS."""
    properties = _file_systems(buckets, file_system, hdfs)
    if is_default:
        properties["fs.defaultFS"] = "hdfs:///"
    lines = [
        f"<property><name>{escape(key)}</name><value>{escape(value)}</value></property>"
        for key, value in properties.items()
    ]
    return "\n".join(["<configuration>", *lines, "</configuration>", ""])


def _uri(folder: Path) -> str:
    return "file://" + quote(str(folder.absolute()))


def properties_file(properties: Mapping[str, str], *, separator: str = " ") -> str:
    """Return a Java properties file in ASCII, because some readers decode it as ISO 8859-1 and others as UTF-8."""
    return "".join(
        f"{in_ascii(key)}{separator}{in_ascii(_escape(value))}\n"
        for key, value in properties.items()
    )


def in_ascii(text: str) -> str:
    """Return a text for a properties file, with Java's escapes for non-ASCII characters."""
    units = text.encode("utf-16-be", "surrogatepass")
    pairs = (int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2))
    return "".join(chr(unit) if unit < 0x80 else f"\\u{unit:04x}" for unit in pairs)


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def ui_properties(folder: Path) -> dict[str, str]:
    """Return the Spark settings that give the job in `folder` a UI and an event log."""
    return {
        "spark.ui.enabled": "true",
        # Any free port: jobs run concurrently, maybe with the user's own.
        "spark.ui.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": "file://" + quote(str((folder / EVENTS).absolute())),
        "spark.eventLog.compress": "true",
        "spark.eventLog.compression.codec": "zstd",
        "spark.eventLog.rolling.enabled": "true",
        "spark.eventLog.rolling.maxFileSize": f"{ROLL_AT_MIB}m",
    }


def ui_logging(folder: Path) -> str:
    """Return the log4j2 properties with which the driver of the job in `folder` logs its UI's port."""
    return _UI_LOGGING.format(path=in_ascii(str((folder / UI_LOG).absolute())))


def _python(spark: JobSpark, name: str, value: str) -> str:
    """Return a property's value for this machine, with EMR's interpreters replaced by local ones."""
    if not is_python_setting(name):
        return value
    return spark.interpreter_for(value) or value


def _with_pythons_of(spark: JobSpark, submission: Submission) -> Submission:
    options: list[tuple[str, str | None]] = []
    for option, setting in submission.options:
        if option in ("--conf", "-c") and setting is not None:
            name, equals, value = setting.partition("=")
            setting = f"{name}{equals}{_python(spark, name, value)}"
        options.append((option, setting))
    return Submission(options, submission.application, submission.arguments)


def _with_properties_file(
    submission: Submission, properties: Mapping[str, str], conf: Path
) -> Submission:
    """Add headrace's settings to the file of `--properties-file`, because this Spark then reads no other file."""
    paths = option_values(submission, "--properties-file")
    if not paths:
        return submission
    try:
        text = Path(paths[-1]).read_text(encoding="iso-8859-1")
    except OSError as error:
        raise JobRefused(f"{paths[-1]} cannot be read: {error.strerror}.") from None
    merged = conf / "properties"
    merged.write_text(properties_file(properties) + text, encoding="iso-8859-1")
    options = [
        (name, str(merged) if name == "--properties-file" else value)
        for name, value in submission.options
    ]
    return Submission(options, submission.application, submission.arguments)


UI_LOG = Path("conf", "ui.log")
# The folder of the event logs, in the job's folder.
EVENTS = Path("events")

# Spark's own messages since 1.x: Utils.startServiceOnPort, SparkUI.stop.
_STARTED = re.compile(r"^Successfully started service 'SparkUI' on port (\d+)\.", re.MULTILINE)
_STOPPED = re.compile(r"^Stopped Spark web UI at ", re.MULTILINE)
_FOLDER_PREFIX = "eventlog_v2_"


@dataclass(frozen=True, slots=True)
class EventLog:
    """One application's event log: a folder that Spark rolls, or a file.

    Attributes:
        application_id: Spark's id of the application.
        path: where it is.
    """

    application_id: str
    path: Path


def live_url(folder: Path) -> str | None:
    """Return the URL of the Spark UI of the job in `folder`; None when it has none at present.

    The caller must know that the job runs, because a killed driver does not log the end of its UI.
    """
    try:
        text = (folder / UI_LOG).read_text(errors="replace")
    except OSError:
        return None
    started = list(_STARTED.finditer(text))
    # A program may have several contexts in succession.
    if not started or _STOPPED.search(text, started[-1].end()):
        return None
    return f"http://127.0.0.1:{started[-1][1]}"


def event_logs(folder: Path) -> list[EventLog]:
    """Return the event logs of the job in `folder`, in the order in which their applications began."""
    return event_logs_in(folder / EVENTS)


def event_logs_in(events: Path) -> list[EventLog]:
    """Return the event logs in an events folder, in the order in which their applications began."""
    try:
        names = sorted(path.name for path in events.iterdir() if not path.name.startswith("."))
    except OSError:
        return []
    return [EventLog(_application_id(name), events / name) for name in names]


def _application_id(name: str) -> str:
    # `eventlog_v2_<id>` is a folder, `<id>[.<codec>][.inprogress]` a file.
    return name.removeprefix(_FOLDER_PREFIX).partition(".")[0]
