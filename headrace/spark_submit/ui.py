"""A job's Spark UI while it runs, and its event logs afterwards: the settings that make them, and where they are.

Both belong to the job's folder. The driver says in `conf/ui.log`, by its log4j settings, on which port its UI listens:
so it works alike for Python and JVM programs, and adds nothing to what they print. The event logs are in `events/`; the
name of each holds the id of its application.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from headrace.spark_submit.arguments import in_ascii

_UI_LOG = Path("conf", "ui.log")
_EVENTS = "events"
# Spark's smallest: of a job that runs for days, the middle can be let go file by file (see `event_bounds`).
ROLL_AT_MIB = 10

# The words are Spark's own since 1.x: Utils.startServiceOnPort, SparkUI.stop.
_STARTED = re.compile(r"^Successfully started service 'SparkUI' on port (\d+)\.", re.MULTILINE)
_STOPPED = re.compile(r"^Stopped Spark web UI at ", re.MULTILINE)
_FOLDER_PREFIX = "eventlog_v2_"

_LOGGING = """\
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


@dataclass(frozen=True, slots=True)
class EventLog:
    """One application's event log: a folder that Spark rolls, or a file.

    Attributes:
        application_id: Spark's id of the application.
        path: where it is.
    """

    application_id: str
    path: Path


def ui_properties(folder: Path) -> dict[str, str]:
    """Return the Spark settings that give the job in `folder` a UI and an event log."""
    return {
        "spark.ui.enabled": "true",
        # Any free port: jobs run side by side, and so may the user's own.
        "spark.ui.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": "file://" + quote(str(events_folder(folder).absolute())),
        "spark.eventLog.compress": "true",
        "spark.eventLog.compression.codec": "zstd",
        "spark.eventLog.rolling.enabled": "true",
        "spark.eventLog.rolling.maxFileSize": f"{ROLL_AT_MIB}m",
    }


def ui_logging(folder: Path) -> str:
    """Return the log4j2 properties by which the driver of the job in `folder` says where its UI is."""
    return _LOGGING.format(path=in_ascii(str((folder / _UI_LOG).absolute())))


def events_folder(folder: Path) -> Path:
    """Return where the event logs of the job in `folder` are."""
    return folder / _EVENTS


def live_url(folder: Path) -> str | None:
    """Return the URL of the Spark UI of the job in `folder`; None when it has none now.

    The caller knows that the job runs: a driver that was killed has not logged the end of its UI.
    """
    try:
        text = (folder / _UI_LOG).read_text(errors="replace")
    except OSError:
        return None
    started = list(_STARTED.finditer(text))
    # A program may have several contexts, one after the other.
    if not started or _STOPPED.search(text, started[-1].end()):
        return None
    return f"http://127.0.0.1:{started[-1][1]}"


def event_logs(folder: Path) -> list[EventLog]:
    """Return the event logs of the job in `folder`, in the order of their applications' beginnings."""
    return event_logs_in(events_folder(folder))


def event_logs_in(events: Path) -> list[EventLog]:
    """Return the event logs in an events folder, in the order of their applications' beginnings."""
    try:
        names = sorted(path.name for path in events.iterdir() if not path.name.startswith("."))
    except OSError:
        return []
    return [EventLog(_application_id(name), events / name) for name in names]


def _application_id(name: str) -> str:
    # `eventlog_v2_<id>` is a folder, `<id>[.<codec>][.inprogress]` a file.
    return name.removeprefix(_FOLDER_PREFIX).partition(".")[0]
