"""A stand-in for Spark's history server: `spark-class` that serves in milliseconds what a test needs of it."""

from __future__ import annotations

import sys
from pathlib import Path

_SPARK_CLASS = """\
#!{python}
import http.server, os, pathlib, sys, urllib.parse

conf = pathlib.Path(os.environ["SPARK_CONF_DIR"], "spark-defaults.conf").read_text().splitlines()
conf = dict(line.split(" ", 1) for line in conf)
logs = urllib.parse.unquote(conf["spark.history.fs.logDirectory"].removeprefix("file://"))


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        name = self.path.rpartition("/")[2]
        known = not name or os.path.exists(os.path.join(logs, "eventlog_v2_" + name))
        self.send_response(200 if known else 404)
        self.end_headers()
        self.wfile.write(b"history")

    def log_message(self, *_):
        pass


if os.path.exists(os.path.join(os.environ["SPARK_HOME"], "broken")):
    sys.exit("Exception in thread main: it is broken")
# A stranger that connects to this port and says nothing must not keep it from answering.
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(conf["spark.history.ui.port"])), Handler)
service = "Successfully started service 'HistoryServerUI' on port"
print(f"26/11/21 11:47:55 INFO Utils: {{service}} {{server.server_port}}.", flush=True)
server.serve_forever()
"""


def make_history_home(folder: Path) -> Path:
    """Make a home for HEADRACE_SPARK_HOME, whose history server ends at once while it holds a file `broken`."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    text = _SPARK_CLASS.format(python=sys.executable)
    for name in ("spark-class", "spark-submit"):
        program = programs / name
        program.write_text(text)
        program.chmod(0o755)
    return folder


def make_event_log(data_dir: Path, application_id: str, *, step: str = "s-1") -> Path:
    """Make the folder of an event log as a step leaves one."""
    path = data_dir / "emr" / "j-1" / step / "events" / f"eventlog_v2_{application_id}"
    path.mkdir(parents=True)
    return path
