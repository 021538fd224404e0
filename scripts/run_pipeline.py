"""`make run`: runs the whole pipeline on a local cloud and checks every stage against plain pandas.

Starts from an empty cloud in `.headrace/` each time, deploys the CDK app with the CDK CLI, replays flights with
boto3, submits the Spark step with the AWS CLI: nothing here that a user of AWS would not do.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from headrace.cli.interrupts import INTERRUPTED
from headrace.cli.options import words_of
from headrace.cli.pacing import parse_speed
from headrace.cli.putting import PutFailed
from scripts.pipeline.run import ROOT, Check, Run, StageError, console
from scripts.pipeline.stages import (
    delivered,
    deploy,
    enriched,
    malformed,
    replay,
    spark,
    start,
    submit,
)
from scripts.pipeline.summary import summary

JANUARY = 1


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="make run", description=__doc__)
    parser.add_argument("--all", action="store_true", help="the whole year, 336,776 flights")
    parser.add_argument("--month", type=int, choices=range(1, 13), default=JANUARY, metavar="1-12")
    parser.add_argument("--once", action="store_true", help="stop the cloud at the end")
    parser.add_argument("--speed", default="max", help="max, or times real time: 3600x")
    parser.add_argument("--port", type=int, default=4566)
    parser.add_argument("--data-dir", type=Path, default=ROOT / ".headrace")
    options = parser.parse_args(arguments)
    try:
        options.speed = parse_speed(options.speed)
    except ValueError as error:
        parser.error(str(error))
    return options


def main() -> int:
    """Run every stage; 0 when every check holds."""
    options = parse(sys.argv[1:])
    began = time.monotonic()
    run: Run | None = None
    interrupted = False
    try:
        with Progress(
            SpinnerColumn(finished_text="[green]✓[/]"), TextColumn("{task.description}"), BarColumn(),
            MofNCompleteColumn(), TimeElapsedColumn(), console=console,
        ) as progress:  # fmt: skip
            task = progress.add_task("starting the cloud", total=1)
            run = start(options.data_dir, options.port)
            progress.advance(task)
            deploy(run, progress)
            month = None if options.all else options.month
            events = replay(run, month, options.speed, progress)
            enriched(run, len(events), progress)
            step_id = submit(run)
            delivered(run, events, progress)
            windows = spark(run, step_id, events, progress)
        run.checks.insert(2, Check("Lambda", "failure reports", 0, malformed(run)))
        seconds = time.monotonic() - began
        return 0 if summary(run, windows, seconds, stays=not options.once) else 1
    except (StageError, PutFailed, BotoCoreError, ClientError) as error:
        console.print(
            f"[red]headrace:[/] {escape(str(error) if isinstance(error, StageError) else words_of(error))}",
            soft_wrap=True,
        )
        return 1
    except KeyboardInterrupt:
        # What is half done is of no use; after a failure the cloud stays, to be looked at.
        interrupted = True
        return INTERRUPTED
    finally:
        if run is not None and (options.once or interrupted):
            subprocess.run(
                [sys.executable, "-m", "headrace.cli.main", "down", "--data-dir", str(options.data_dir)],
                check=False, cwd=ROOT,
            )  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
