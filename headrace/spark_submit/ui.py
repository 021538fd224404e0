"""Finds a job's Spark UI while it runs, and its event logs afterwards.

Both are in the job's folder. The driver's log4j settings write its UI's port to `conf/ui.log`, which works for Python
and JVM programs and adds nothing to their output. The event logs are in `events/`; their names contain the application
ids.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

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
