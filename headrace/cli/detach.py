"""How `headrace up` starts a cloud in the background, and who may use the cloud that it starts."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from headrace.aws.gateway.hosts import (
    AllowedOrigins,
    HostRefused,
    Hosts,
    OriginRefused,
    is_loopback,
)
from headrace.aws.signatures.access_keys import KeysRefused, read_keys, read_secrets
from headrace.cli.interrupts import STOP_SIGNALS, StopSignals
from headrace.cli.options import fail
from headrace.cli.running_cloud import (
    LOG_FILE,
    LOOK_EVERY_S,
    RUN_FILE,
    SAY_EVERY_S,
    STOP_WITHIN_S,
    devices_sentence,
    explain_second,
    health,
    loading_sentence,
    print_losses,
    silent_cloud,
)
from headrace.core.clock import SystemClock
from headrace.core.config import Config
from headrace.spark.held_folder import HeldFolder

# A long time for a machine that is not busy.
START_WITHIN_S = 60.0
# Below the folder for temporary files; the next ephemeral cloud removes the folders of killed ones.
EPHEMERAL_PREFIX = "headrace-ephemeral-"


def ephemeral_folder() -> HeldFolder:
    """Make the folder of an ephemeral cloud; remove the folders and processes of killed ones."""
    from headrace.spark_submit.job import end_jobs_below

    try:
        return HeldFolder.make(EPHEMERAL_PREFIX, before_removal=end_jobs_below)
    except OSError as error:
        raise fail(f"No temporary directory can be made: {error.strerror}; set TMPDIR.") from error


def start_in_background(config: Config, *, ephemeral: bool) -> None:
    """Start this command again without --detach, and wait until the cloud is healthy.

    On Ctrl-C, or when it takes too long, the cloud is ended and leaves nothing behind.
    """
    context = click.get_current_context()
    asked = context.with_resource(StopSignals(*STOP_SIGNALS))
    folder: HeldFolder | None = None
    arguments = [argument for argument in sys.argv[1:] if argument != "--detach"]
    arguments.append("--detached")
    if ephemeral:
        # The parent must know the child's folder, so the parent makes it; the child locks and removes it.
        folder = ephemeral_folder()
        config = replace(config, data_dir=folder.path)
        arguments += ["--ephemeral-dir", str(folder.path)]
    data_dir = config.data_dir
    log_path = data_dir / LOG_FILE
    with _in_one_sentence(data_dir):
        data_dir.mkdir(parents=True, exist_ok=True)
        running = health(data_dir)
        if running is not None:
            is_asked = context.get_parameter_source("port") is not ParameterSource.DEFAULT
            if is_asked and config.port not in (0, urlsplit(str(running["endpoint_url"])).port):
                raise fail(explain_second(data_dir, running["endpoint_url"], config.port))
            click.echo(f"headrace is already running on {running['endpoint_url']}")
            return
        if (unheard := silent_cloud(data_dir)) is not None:
            raise fail(unheard)
        (data_dir / RUN_FILE).unlink(missing_ok=True)
        # Opened for reading too: an ephemeral cloud that cannot start removes its folder, and the log in it.
        log = context.with_resource(log_path.open("a+b"))
    child = subprocess.Popen(
        [sys.executable, "-m", "headrace.cli.main", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        pass_fds=() if folder is None else (folder.descriptor,),
    )
    status = _wait_until_healthy(child, data_dir, asked)
    if status is not None:
        _say_how_to_use(config, status, ephemeral=ephemeral)
        return
    has_ended = child.poll() is not None
    log.seek(0)
    lines = log.read().decode(errors="replace").strip().splitlines() if has_ended else []
    _end(child, folder)
    if asked:
        context.exit(asked.exit_code)
    if has_ended:
        raise fail((lines[-1] if lines else "it ended at once").removeprefix("Error: "))
    raise fail(
        f"headrace was not healthy after {START_WITHIN_S:.0f} s and is stopped; see {log_path}"
    )


def _wait_until_healthy(
    child: subprocess.Popen[bytes], data_dir: Path, asked: StopSignals
) -> dict[str, Any] | None:
    """Return the status of a cloud that has started; None when it ended, took too long, or a signal came."""
    clock, never, said = SystemClock(), threading.Event(), ""
    deadline_s, say_at_s = clock.monotonic_s() + START_WITHIN_S, clock.monotonic_s() + SAY_EVERY_S
    while clock.monotonic_s() < deadline_s and not asked:
        status = health(data_dir)
        if status is not None and status["status"] in ("ok", "failed"):
            return status
        if child.poll() is not None:
            return None
        if status is not None and status["status"] == "loading":
            # It is still loading: a large journal of an older headrace takes long, but only once.
            deadline_s = clock.monotonic_s() + START_WITHIN_S
        if clock.monotonic_s() >= say_at_s:
            say_at_s = clock.monotonic_s() + SAY_EVERY_S
            sentence = "starting" if status is None else loading_sentence(status)
            if sentence != said:
                click.echo(sentence, err=True)
            said = sentence
        clock.wait(never, LOOK_EVERY_S)
    return None


def _say_how_to_use(config: Config, status: dict[str, Any], *, ephemeral: bool) -> None:
    without = "" if status["moto"] == "ready" else ", without moto's services"
    click.echo(
        f"headrace is listening on {status['endpoint_url']} (pid {status['pid']}){without}"
        f"{devices_sentence(status.get('mqtt'))}"
    )
    print_losses(status)
    for line in how_to_use(config, status["endpoint_url"]):
        click.echo(line)
    if ephemeral:
        click.echo(f"stop it with: headrace down --data-dir {config.data_dir}")


def _end(child: subprocess.Popen[bytes], folder: HeldFolder | None) -> None:
    """End a cloud that was started in the background, and remove the folder of an ephemeral one."""
    child.terminate()
    try:
        child.wait(STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    if folder is not None:
        folder.close()


@contextlib.contextmanager
def _in_one_sentence(data_dir: Path) -> Generator[None]:
    """End the command with one sentence when the data directory cannot be used."""
    from headrace.store.data_dir import DataDirUnusable, explain_folder_errors

    try:
        with explain_folder_errors(data_dir):
            yield
    except DataDirUnusable as error:
        raise fail(str(error)) from error


def check_access(config: Config, *, insecure: bool) -> None:
    """Refuse invalid or unsafe settings. Raises ClickException with one sentence.

    Args:
        config: the cloud's settings.
        insecure: allow connections from other machines without keys.
    """
    try:
        Hosts(config.allow_hosts)
        AllowedOrigins(config.allow_origins)
        if config.auth_keys is not None:
            read_keys(config.auth_keys)
    except (HostRefused, OriginRefused, KeysRefused) as error:
        raise fail(str(error)) from error
    if _is_open(config) and not insecure:
        raise fail(
            f"On {config.host} everybody who reaches this machine could run code as you: start with --auth, which"
            " asks for keys, or with --insecure."
        )


def _is_open(config: Config) -> bool:
    """Whether other machines can reach the cloud without a key."""
    try:
        return not config.auth and not is_loopback(config.host)
    except OSError as error:
        raise fail(f"Cannot listen on {config.host}: {error.strerror}.") from error


def access_warnings(config: Config) -> list[str]:
    """Return warnings about the access that the settings allow, for the start."""
    lines: list[str] = []
    if _is_open(config):
        lines.append(
            f"Everybody who reaches {config.host} can use this cloud, and run code as you."
        )
    if "*" in config.allow_origins:
        lines.append("Every web page that you visit can use this cloud, and run code as you.")
    if config.auth_keys is not None and config.auth_keys.stat().st_mode & 0o077:
        lines.append(
            f"Others can read the keys in {config.auth_keys}: chmod 600 {config.auth_keys}"
        )
    return lines


def how_to_use(config: Config, endpoint_url: str) -> list[str]:
    """Return how to use a cloud that requires keys: one key, and the URL of its pages."""
    secrets = read_secrets(config.data_dir) if config.auth else None
    if secrets is None:
        return []
    if config.auth_keys is not None:
        keys = f"the keys are those of {config.auth_keys}"
    else:
        keys = (
            f"export AWS_ACCESS_KEY_ID={secrets.access_key_id}"
            f" AWS_SECRET_ACCESS_KEY={secrets.secret_access_key}"
        )
    return [keys, f"its pages: {endpoint_url}/_headrace/?token={secrets.page_token}"]
