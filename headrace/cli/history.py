"""`headrace history`: Spark's history server over what the cloud's jobs have left."""

from __future__ import annotations

import signal
import tempfile
import threading
from pathlib import Path
from types import FrameType

import click

from headrace.cli.options import data_dir_option, fail, usable
from headrace.core.clock import SystemClock

DEFAULT_HISTORY_PORT = 18080
LINK_EVERY_S = 2.0


@click.command()
@data_dir_option
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_HISTORY_PORT,
    show_default=True,
    help="Where it listens on 127.0.0.1; 0 takes a free port.",
)
def history(data_dir: Path, port: int) -> None:
    """Show the jobs of a data directory in Spark's history server, until Ctrl-C. The cloud need not run."""
    from headrace.spark_submit.errors import JobRefused
    from headrace.spark_submit.history import HistoryServer, link_event_logs

    usable(data_dir)
    if not data_dir.is_dir():
        raise fail(f"There is no data directory {data_dir}.")
    stop, clock = threading.Event(), SystemClock()

    def end(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    with tempfile.TemporaryDirectory(prefix="headrace-history-") as folder:
        server = HistoryServer(clock, data_dir, Path(folder), port=port)
        try:
            count = len(link_event_logs(data_dir))
            server.start()
            url = server.wait(stop)
            click.echo(f"Spark's history server is listening on {url} ({_applications(count)})")
            while server.alive and not clock.wait(stop, LINK_EVERY_S):
                link_event_logs(data_dir)
            if not stop.is_set():
                raise fail("Spark's history server has ended.")
        except JobRefused as error:
            if not stop.is_set():
                raise fail(str(error)) from None
        finally:
            server.stop()


def _applications(count: int) -> str:
    return f"{count} application{'s' if count != 1 else ''} so far; Ctrl-C ends it"
