"""`make run`: runs the whole pipeline on a cloud and checks every stage against plain pandas.

The cloud is headrace, started empty in `.headrace/` each time, unless `--cloud` names another: `localstack` (started
here without Docker, also empty), an address, or `aws`, which costs money and therefore asks first. The run deploys the
CDK app with the CDK CLI, replays flights with boto3 and submits the Spark step with the AWS CLI, as a user of AWS
would. The summary names the stages that the cloud cannot run; some of them run another way.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

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
from headrace.cli.options import error_text
from headrace.cli.pacing import parse_speed
from headrace.cli.put import PutFailed
from headrace.core.late_imports import imports_later

# pandas takes half a second to import: `load_flights` does that while the stacks are deployed.
with imports_later({}, late={"pandas": {}}):
    import pandas as pd

from scripts.pipeline import devices
from scripts.pipeline.options import DEVICES, PORT, build_parser
from scripts.pipeline.other_clouds import (
    ANALYTICS,
    DELIVERY,
    connect,
    connect_to_aws,
    cost_sentence,
    may_spend,
    put_directly,
    submit_here,
)
from scripts.pipeline.run import (
    ROOT,
    Check,
    Run,
    StageError,
    Synthesis,
    console,
)
from scripts.pipeline.stages import (
    archive_classes,
    check_expendable,
    delivered,
    deploy,
    enriched,
    load_flights,
    malformed,
    replay,
    spark,
    start,
    submit,
)
from scripts.pipeline.summary import summary
from scripts.pipeline.targets import (
    AWS,
    HEADRACE,
    LOCALSTACK,
    MINISTACK,
    MOTO,
    TargetError,
    check_name,
)

FLIGHTS_A_YEAR = 336_776
# On free ports: another broker may have MQTT's.
WITH_MQTT = ("--mqtt", "--mqtt-port", "0", "--mqtt-tls-port", "0")
# The files of a run on another cloud: the synthesised app, outputs, the job's tables.
ELSEWHERE = ROOT / ".localstack" / "pipeline"


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    try:
        options.speed = parse_speed(options.speed)
        options.cloud = check_name(options.cloud)
    except (ValueError, TargetError) as error:
        parser.error(str(error))
    if options.cloud in (MINISTACK, MOTO):
        parser.error(
            f"{options.cloud} is not started by this command: start it, and give its address, http://host:port"
        )
    if options.flights is not None and options.flights < 1:
        parser.error(f"--flights must be 1 or more, and {options.flights} is not")
    if options.pipeline == DEVICES and options.cloud not in (HEADRACE, AWS):
        parser.error("--pipeline devices runs on headrace and aws: it needs MQTT and rules")
    if options.devices < 1:
        parser.error(f"--devices must be 1 or more, and {options.devices} is not")
    if options.data_dir is not None and options.cloud != HEADRACE:
        parser.error("--data-dir is headrace's: another cloud keeps its data itself")
    if options.port is not None and options.cloud not in (HEADRACE, LOCALSTACK):
        parser.error(f"--port is for a cloud that this command starts, and {options.cloud} is not")
    options.data_dir = options.data_dir or ROOT / ".headrace"
    options.port = PORT if options.port is None else options.port
    return options


def begin_synthesis(options: argparse.Namespace) -> Synthesis | None:
    """Return the synthesis of the app, which for headrace begins before the cloud; else None. Raises StageError."""
    if options.cloud != HEADRACE:
        return None
    check_expendable(options.data_dir)
    return Synthesis(Run("", options.data_dir, pipeline=options.pipeline))


def begin(options: argparse.Namespace) -> Run | None:
    """Return a run on the chosen cloud; None if it costs money and the user does not agree. Raises StageError."""
    if options.cloud == HEADRACE:
        run = start(
            options.data_dir,
            options.port,
            options=WITH_MQTT if options.pipeline == DEVICES else (),
        )
        run.pipeline = options.pipeline
        return run
    shutil.rmtree(ELSEWHERE, ignore_errors=True)
    if options.cloud != AWS:
        return connect(options.cloud, ELSEWHERE, options.port)
    run = connect_to_aws(ELSEWHERE)
    run.pipeline = options.pipeline
    flights_put = FLIGHTS_A_YEAR if options.all else FLIGHTS_A_YEAR // 12
    if options.pipeline == DEVICES:
        sentence = cost_sentence(options.devices * (devices.MINUTES + 1), DEVICES)
    else:
        sentence = cost_sentence(min(flights_put, options.flights or flights_put))
    return run if options.yes or may_spend(sentence) else None


def end(run: Run, options: argparse.Namespace) -> None:
    """Stop the cloud if this command started it; else destroy the stacks."""
    if options.cloud == HEADRACE:
        command = [
            sys.executable,
            "-m",
            "headrace.cli.main",
            "down",
            "--data-dir",
            str(options.data_dir),
        ]
    elif options.cloud == LOCALSTACK:
        command = [sys.executable, "-m", "scripts.localstack_host.command", "down"]
    else:
        cdk = str(ROOT / "cdk" / "node_modules" / ".bin" / "cdk")
        command = [cdk, "destroy", "--all", "--force", "--app", str(run.data_dir / "cdk.out")]
    subprocess.run(command, check=False, cwd=ROOT, env=run.environment, stdin=subprocess.DEVNULL)


def process(
    run: Run, options: argparse.Namespace, progress: Progress, synthesis: Synthesis | None
) -> pd.DataFrame:
    """Deploy, replay and check every stage, or its replacement on this cloud; return the job's windows."""
    if run.pipeline == DEVICES:
        deploy(run, progress, synthesis)
        return devices.process(run, options.devices, progress)
    month = None if options.all else options.month
    with ThreadPoolExecutor(1) as beside:
        loading = beside.submit(load_flights, month, options.flights)
        deploy(run, progress, synthesis)
        events = loading.result()
    replay(run, events, options.speed, progress)
    found = enriched(run, len(events), progress)
    # If the cloud has EMR steps, the step runs while Firehose delivers.
    stream = run.output("ingest", "EnrichedStreamName")
    step_id = None if ANALYTICS in run.not_here else submit(run, "departures", stream)
    if DELIVERY in run.not_here:
        put_directly(run, found, progress)
    else:
        delivered(run, events, progress)
    windows = (
        submit_here(run, events, progress)
        if step_id is None
        else spark(run, step_id, events, progress)
    )
    run.checks.insert(2, Check("Lambda", "failure reports", 0, malformed(run)))
    return windows


def main() -> int:
    """Run every stage; 0 when every check holds."""
    options = parse(sys.argv[1:])
    began = time.monotonic()
    run: Run | None = None
    interrupted = False
    try:
        with begin_synthesis(options) or contextlib.nullcontext() as synthesis, Progress(
            SpinnerColumn(finished_text="[green]✓[/]"), TextColumn("{task.description}"), BarColumn(),
            MofNCompleteColumn(), TimeElapsedColumn(), console=console,
        ) as progress:  # fmt: skip
            if options.cloud == AWS:
                progress.stop()  # a question needs the screen
            task = progress.add_task("starting the cloud", total=1)
            run = begin(options)
            if run is None:
                return 1
            progress.start()
            progress.advance(task)
            windows = process(run, options, progress, synthesis)
        seconds = time.monotonic() - began
        if options.cloud == HEADRACE:
            archive_classes(run)
        return 0 if summary(run, windows, seconds, stays=not options.once) else 1
    except (StageError, PutFailed, BotoCoreError, ClientError) as error:
        console.print(
            f"[red]headrace:[/] {escape(str(error) if isinstance(error, StageError) else error_text(error))}",
            soft_wrap=True,
        )
        return 1
    except KeyboardInterrupt:
        # An interrupted run is useless; after a failure the cloud stays, so that the user can look into it.
        interrupted = True
        return INTERRUPTED
    finally:
        if run is not None and (options.once or interrupted):
            end(run, options)


if __name__ == "__main__":
    raise SystemExit(main())
