"""`headrace history`: runs Spark's history server on the event logs of a cloud's jobs."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import click

from headrace.cli.interrupts import INTERRUPTED, StopSignals
from headrace.cli.options import data_dir_option, fail, usable
from headrace.core.clock import SystemClock
from headrace.spark.held_folder import HeldFolder

DEFAULT_HISTORY_PORT = 18080
LINK_EVERY_S = 2.0
# Below the folder for temporary files: the server's settings and output.
HISTORY_PREFIX = "headrace-history-"


@click.command()
@data_dir_option
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_HISTORY_PORT,
    show_default=True,
    help="The port on 127.0.0.1; 0 takes a free port.",
)
def history(data_dir: Path, port: int) -> None:
    """Show the jobs of a data directory in Spark's history server. Ctrl-C ends it. The cloud need not run."""
    from headrace.spark_submit import JobRefused
    from headrace.spark_submit.history import HistoryServer, link_event_logs

    usable(data_dir)
    if not data_dir.is_dir():
        raise fail(f"There is no data directory {data_dir}; name it with --data-dir.")
    stop, clock = threading.Event(), SystemClock()
    with (
        StopSignals(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as asked,
        HeldFolder.make(HISTORY_PREFIX) as folder,
    ):
        asked.call_when_asked(stop.set)
        server = HistoryServer(clock, data_dir, folder.path, port=port)
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
    if asked.number == signal.SIGINT:
        click.get_current_context().exit(INTERRUPTED)


def _applications(count: int) -> str:
    return f"{count} application{'s' if count != 1 else ''} so far; Ctrl-C ends it"
