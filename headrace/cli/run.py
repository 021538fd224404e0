"""`headrace up`: start a cloud in this process, or with --detach in the background."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import re
import resource
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.cli.access import Access, access_options, how_to_use
from headrace.cli.detach import ephemeral_folder, start_in_background
from headrace.cli.health_words import moto_progress
from headrace.cli.interrupts import (
    INTERRUPTED,
    STOP_SIGNALS,
    StopSignals,
    leave_at_once,
    let_children_be_interrupted,
)
from headrace.cli.options import data_dir_option, fail, postgres_url, server_url
from headrace.cli.running_cloud import (
    LOOK_EVERY_S,
    RUN_FILE,
    SAY_EVERY_S,
    write_run_file,
)
from headrace.core.arn import is_account_id
from headrace.core.clock import SystemClock
from headrace.core.config import (
    DEFAULT_ACCOUNT_ID,
    DEFAULT_LOG_GROUP_EVENTS,
    DEFAULT_LOG_GROUP_MIB,
    DEFAULT_PORT,
    DEFAULT_REGION,
    Config,
    Durability,
    Iam,
    Limits,
    Spark,
)

if TYPE_CHECKING:
    from headrace.cloud import Cloud

MOST_FILES = 10_240


@click.command()
@data_dir_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to bind.")
@click.option(
    "--port",
    default=DEFAULT_PORT,
    type=click.IntRange(0, 65535),
    envvar="HEADRACE_PORT",
    show_default=True,
    help="0 takes a free port.",
)
@click.option(
    "--region",
    default=DEFAULT_REGION,
    show_default=True,
    help="The region of requests that name none.",
)
@click.option(
    "--account",
    default=DEFAULT_ACCOUNT_ID,
    show_default=True,
    help="The id of the account: 12 digits.",
)
@click.option(
    "--durability",
    type=click.Choice(["os", "fsync"]),
    default="os",
    show_default=True,
    help="os: survives kill -9; fsync: survives a power cut.",
)
@click.option(
    "--ephemeral", is_flag=True, help="Use a temporary data directory, which is removed at the end."
)
@click.option(
    "--ephemeral-dir", type=click.Path(file_okay=False, path_type=Path), hidden=True, default=None
)
@click.option(
    "--strict",
    is_flag=True,
    help="Refuse parameters and template properties that headrace would ignore.",
)
@click.option(
    "--spark",
    type=click.Choice(["label", "installed"]),
    default="label",
    envvar="HEADRACE_SPARK",
    show_default=True,
    help="label: each Spark job runs with the Spark of its release label; installed: all with headrace's own.",
)
@click.option(
    "--state-delay",
    default=0.0,
    type=click.FloatRange(0, 3600),
    help="Seconds that Kinesis streams and consumers stay CREATING, UPDATING or DELETING.",
)
@click.option(
    "--limits",
    type=click.Choice(["off", "aws"]),
    default="off",
    envvar="HEADRACE_LIMITS",
    show_default=True,
    help="aws: throttle Kinesis, shard by shard and call by call, and Firehose's direct puts as AWS does.",
)
@click.option(
    "--iam",
    type=click.Choice(["off", "report", "enforce"]),
    default="report",
    envvar="HEADRACE_IAM",
    show_default=True,
    help="report: note requests that AWS would deny (headrace iam report); enforce: deny them; off: do not check.",
)
@click.option(
    "--run-bootstrap-actions",
    is_flag=True,
    help="Run the bootstrap actions of EMR clusters, on this machine.",
)
@click.option(
    "--function-folder",
    "function_folders",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    envvar="HEADRACE_FUNCTION_FOLDERS",
    help="A folder that Lambda functions may read and write, beside their own /tmp.",
)
@click.option(
    "--log-group-events",
    default=DEFAULT_LOG_GROUP_EVENTS,
    type=click.IntRange(1),
    envvar="HEADRACE_LOG_GROUP_EVENTS",
    show_default=True,
    help="How many events of a CloudWatch log group are kept; the oldest are dropped.",
)
@click.option(
    "--log-group-mib",
    default=DEFAULT_LOG_GROUP_MIB,
    type=click.IntRange(1),
    envvar="HEADRACE_LOG_GROUP_MIB",
    show_default=True,
    help="How many MiB of messages of a CloudWatch log group are kept.",
)
@click.option(
    "--opensearch",
    "opensearch_url",
    default="",
    envvar="HEADRACE_OPENSEARCH",
    metavar="URL",
    callback=server_url,
    help="Your own OpenSearch server, for the documents of all domains; default: a small one in the data directory.",
)
@click.option(
    "--redshift",
    "redshift_url",
    default="",
    envvar="HEADRACE_REDSHIFT",
    metavar="URL",
    callback=postgres_url,
    help="Your own PostgreSQL (postgresql://user:password@host:port/), for the tables of Redshift clusters; without it"
    " one for each cluster in the data directory, by the extra headrace[redshift].",
)
@access_options
@click.option("--detach", is_flag=True, help="Run in the background.")
@click.option("--detached", is_flag=True, hidden=True)
@click.option("--verbose", "-v", is_flag=True, help="Log the steps of all workers.")
def up(
    data_dir: Path,
    host: str,
    port: int,
    region: str,
    account: str,
    durability: Durability,
    *,
    ephemeral: bool,
    ephemeral_dir: Path | None,
    strict: bool,
    spark: Spark,
    state_delay: float,
    limits: Limits,
    iam: Iam,
    run_bootstrap_actions: bool,
    function_folders: tuple[Path, ...],
    log_group_events: int,
    log_group_mib: int,
    opensearch_url: str,
    redshift_url: str,
    auth: bool,
    auth_keys: Path | None,
    insecure: bool,
    allow_origins: tuple[str, ...],
    allow_hosts: tuple[str, ...],
    detach: bool,
    detached: bool,
    verbose: bool,
) -> None:
    """Start the local cloud."""
    _restart_in_utf8_mode()
    if not is_account_id(account):
        raise fail(f"An account is 12 digits, not {account!r}.")
    if re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?", region) is None:
        raise fail(f"A region is a name such as {DEFAULT_REGION}, not {region!r}.")
    access = Access(
        host=host,
        allow_origins=allow_origins,
        allow_hosts=allow_hosts,
        auth=auth or auth_keys is not None,
        auth_keys=None if auth_keys is None else auth_keys.absolute(),
        insecure=insecure,
    )
    access.check()
    for warning in [] if detached else access.warnings():
        click.echo(f"Warning: {warning}", err=True)
    if detach:
        start_in_background(data_dir, access, ephemeral=ephemeral)
        return
    leave_at_once()
    # Imported here, before anything is created that Ctrl-C could leave behind; `headrace down` does not need it.
    importlib.import_module("headrace.cloud")
    asked = click.get_current_context().with_resource(StopSignals(*STOP_SIGNALS))
    let_children_be_interrupted()
    if ephemeral:
        data_dir = ephemeral_dir or ephemeral_folder().path
    config = Config(
        data_dir=data_dir.absolute(),
        host=host,
        port=port,
        region=region,
        account_id=account,
        durability=durability,
        strict=strict,
        spark=spark,
        state_delay_ms=round(state_delay * 1000),
        limits=limits,
        iam=iam,
        run_bootstrap_actions=run_bootstrap_actions,
        function_folders=function_folders,
        log_group_events=log_group_events,
        log_group_mib=log_group_mib,
        allow_origins=access.allow_origins,
        allow_hosts=access.allow_hosts,
        auth=access.auth,
        auth_keys=access.auth_keys,
        opensearch_url=opensearch_url,
        redshift_url=redshift_url,
    )
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    for noisy in ("botocore", "urllib3", "werkzeug", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    try:
        # A background cloud's parent prints this instead: keys must not be in a log.
        _serve(config, asked, None if detached else access)
    finally:
        if ephemeral:
            shutil.rmtree(data_dir, ignore_errors=True)
    # All acknowledged data is stored. Python would now wait for pool threads, which may be in a function's invocation
    # or a client's long poll for minutes.
    logging.shutdown()
    sys.stdout.flush()
    os._exit(INTERRUPTED if asked.number == signal.SIGINT else 0)


def _restart_in_utf8_mode() -> None:
    """Restart Python in UTF-8 mode unless it is on: file names come from S3 keys, which may be any text."""
    if sys.getfilesystemencoding() != "utf-8":
        command = [sys.executable, "-X", "utf8", "-m", "headrace.cli.main", *sys.argv[1:]]
        os.execv(sys.executable, command)


def _allow_many_files() -> None:
    """Raise the limit of open files to its maximum: each open shard and each client uses one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # On macOS the limit is reported as infinite, but the kernel still has one.
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else hard
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _serve(config: Config, asked: StopSignals, access: Access | None) -> None:
    """Run a cloud until a signal stops it; with `access`, print how to use it."""
    _allow_many_files()
    from headrace.aws.server.server import bind
    from headrace.aws.signatures.access_keys import KeysRefused
    from headrace.cloud import Cloud, DataDirInUse, server_for
    from headrace.store.data_dir import DataDirUnusable, explained
    from headrace.store.memory import FreedMemory, tune_garbage_collector

    try:
        bound = bind(config.host, config.port)
    except OSError as error:
        raise fail(f"Cannot listen on {config.host}:{config.port}: {error.strerror}.") from error
    config = replace(config, port=int(bound.getsockname()[1]))
    try:
        with explained(config.data_dir):
            cloud = Cloud(config)
    except (DataDirUnusable, KeysRefused) as error:
        bound.close()
        raise fail(str(error)) from error
    except DataDirInUse as error:
        bound.close()
        raise fail(f"{error}; stop it first: headrace down --data-dir {config.data_dir}") from error

    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        asked.call_when_asked(lambda: loop.call_soon_threadsafe(stop.set))
        server = server_for(cloud)
        with explained(config.data_dir):
            cloud.start(on_warm=tune_garbage_collector)
            cloud.supervisor.start(FreedMemory())
            await server.start(bound)
            write_run_file(config)
        without = await _wait_until_loaded(cloud, stop)
        if not asked:
            click.echo(
                f"headrace is listening on {config.endpoint_url} (data in {config.data_dir}){without}"
            )
            for line in how_to_use(config.data_dir, config.endpoint_url, access) if access else []:
                click.echo(line)
        await stop.wait()
        # Before the socket closes; otherwise functions whose connections it cuts would count as failed.
        cloud.prepare_stop()
        await server.stop()

    try:
        asyncio.run(run())
    except DataDirUnusable as error:
        raise fail(str(error)) from error
    finally:
        # Before the directory's lock is released: after that the file may belong to another cloud.
        with contextlib.suppress(OSError):
            (config.data_dir / RUN_FILE).unlink(missing_ok=True)
        cloud.stop()


async def _wait_until_loaded(cloud: Cloud, stop: asyncio.Event) -> str:
    """Wait until the state of moto's services is loaded; when this takes long, print the progress.

    Return the end of the line that says that headrace is listening: empty, or that these services are missing.
    """
    clock = SystemClock()
    say_at_s = clock.monotonic_s() + SAY_EVERY_S
    while not stop.is_set():
        status = cloud.moto.status()
        if status["moto"] == "ready":
            break
        if status["moto"] == "failed":
            return f", without moto's services: {status['moto_failure']}"
        if clock.monotonic_s() >= say_at_s:
            say_at_s += SAY_EVERY_S
            click.echo(f"loading the state of moto's services: {moto_progress(status)}")
        await asyncio.sleep(LOOK_EVERY_S)
    return ""
