"""`headrace up`: start a cloud in this process, or with --detach in the background.

Makes the options of `headrace up` from the fields of `Config`: name, type, default and help are declared there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import resource
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import click

from headrace.cli.detach import (
    access_warnings,
    check_access,
    ephemeral_folder,
    how_to_use,
    start_in_background,
)
from headrace.cli.interrupts import (
    INTERRUPTED,
    STOP_SIGNALS,
    StopSignals,
    leave_at_once,
    let_children_be_interrupted,
)
from headrace.cli.options import NumberRange, data_dir_option, fail
from headrace.cli.running_cloud import (
    LOOK_EVERY_S,
    RUN_FILE,
    SAY_EVERY_S,
    devices_sentence,
    explain_second,
    health,
    health_at,
    loading_sentence,
    write_run_file,
)
from headrace.core.clock import SystemClock
from headrace.core.config import Config, Setting
from headrace.core.late_imports import CLASS, imports_later
from headrace.store.memory import import_to_stay

# OpenSSL's library takes 4 MB, and comes with the first connection that is encrypted.
with imports_later({}, late={"ssl": {"SSLSocket": CLASS}, "asyncio.sslproto": {}}):
    import asyncio

if TYPE_CHECKING:
    from headrace.cloud import Cloud
# How long a new cloud's event loop has the processor for itself, before a thread loads moto: who starts it waits for
# its first answers.
_FIRST_ANSWERS_S = 0.05
_F = TypeVar("_F", bound=Callable[..., Any])


def config_options(function: _F) -> _F:
    """Add an option for each setting of `Config`; its value comes under the field's name, as `Config` takes it."""
    hints = get_type_hints(Config, include_extras=True)
    for field in reversed(dataclasses.fields(Config)):
        hint = hints[field.name]
        if get_origin(hint) is Annotated:
            value_type, setting = get_args(hint)
            function = _option(field.name, value_type, field.default, setting)(function)
    return function


def _option(name: str, hint: Any, default: Any, setting: Setting) -> Callable[[_F], _F]:
    flag = setting.flag or "--" + name.replace("_", "-")
    details: dict[str, Any] = {"help": setting.help, "envvar": setting.variable or None}
    if hint is bool:
        return click.option(flag, name, is_flag=True, **details)
    if get_origin(hint) is tuple:
        hint, details["multiple"] = get_args(hint)[0], True
    else:
        details["default"] = default
    return click.option(
        flag,
        name,
        type=_click_type(hint, setting),
        # A value that is empty has its own words in the help.
        show_default=bool(default),
        metavar=setting.metavar or None,
        callback=_converter(setting),
        **details,
    )


def _click_type(hint: Any, setting: Setting) -> click.ParamType[Any]:
    if get_origin(hint) is Literal:
        return click.Choice(list(get_args(hint)))
    if setting.bounds is not None:
        in_range = NumberRange if setting.option_type is float else click.IntRange
        return in_range(*setting.bounds)
    if hint is Path:
        return click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path)
    if Path in get_args(hint):
        return click.Path(dir_okay=False, path_type=Path)
    return click.STRING


def _converter(setting: Setting) -> Callable[[click.Context, click.Parameter, Any], Any] | None:
    convert = setting.convert
    if convert is None:
        return None

    def callback(_: click.Context, _option: click.Parameter, value: Any) -> Any:
        try:
            return convert(value)
        except ValueError as error:
            raise fail(str(error)) from error

    return callback


MOST_FILES = 10_240


@click.command()
@data_dir_option
@config_options
@click.option(
    "--ephemeral", is_flag=True, help="Use a temporary data directory, which is removed at the end."
)
@click.option(
    "--ephemeral-dir", type=click.Path(file_okay=False, path_type=Path), hidden=True, default=None
)
@click.option(
    "--insecure", is_flag=True, help="Accept connections from other machines without keys."
)
@click.option("--detach", is_flag=True, help="Run in the background.")
@click.option("--detached", is_flag=True, hidden=True)
@click.option("--verbose", "-v", is_flag=True, help="Log the steps of all workers.")
def up(
    data_dir: Path,
    *,
    ephemeral: bool,
    ephemeral_dir: Path | None,
    insecure: bool,
    detach: bool,
    detached: bool,
    verbose: bool,
    **settings: Any,
) -> None:
    """Start the local cloud."""
    _restart_in_utf8_mode()
    config = Config(data_dir=data_dir, **settings)
    if config.auth_keys is not None:
        config = replace(config, auth=True)
    check_access(config, insecure=insecure)
    for warning in [] if detached else access_warnings(config):
        click.echo(f"Warning: {warning}", err=True)
    if detach:
        start_in_background(config, ephemeral=ephemeral)
        return
    leave_at_once()
    # Imported here, before anything is created that Ctrl-C could leave behind; `headrace down` does not need it.
    import_to_stay("headrace.cloud")
    asked = click.get_current_context().with_resource(StopSignals(*STOP_SIGNALS))
    let_children_be_interrupted()
    if ephemeral:
        data_dir = ephemeral_dir or ephemeral_folder().path
    config = replace(config, data_dir=data_dir.absolute())
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    for noisy in ("botocore", "urllib3", "werkzeug", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    try:
        # A background cloud's parent prints this instead: keys must not be in a log.
        _serve(config, asked, says_how_to_use=not detached)
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
    wanted_files = MOST_FILES if hard == resource.RLIM_INFINITY else hard
    if soft < wanted_files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted_files, hard))


def _serve(config: Config, asked: StopSignals, *, says_how_to_use: bool) -> None:
    """Run a cloud until a signal stops it."""
    _allow_many_files()
    from headrace.aws.server.server import bind
    from headrace.cloud import server_for
    from headrace.store.data_dir import DataDirUnusable, explain_folder_errors
    from headrace.store.memory import FreedMemory, exclude_from_garbage_collection

    try:
        bound = bind(config.host, config.port)
    except OSError as error:
        said = f"Cannot listen on {config.host}:{config.port}: {error.strerror}"
        page = health_at(config.endpoint_url)
        if "pid" in page:
            folder = f" on {page['data_dir']}" if "data_dir" in page else ""
            said += f"; a headrace{folder} (pid {page['pid']}) listens there, choose another --port"
        raise fail(f"{said}.") from error
    config = replace(config, port=int(bound.getsockname()[1]))
    cloud = _build_cloud(config, bound)

    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        asked.call_when_asked(lambda: loop.call_soon_threadsafe(stop.set))
        server = server_for(cloud)
        with explain_folder_errors(config.data_dir):
            cloud.start()
            cloud.supervisor.start(FreedMemory())
            await server.start(bound)
            write_run_file(config)
        loop.call_later(_FIRST_ANSWERS_S, cloud.warm_up, exclude_from_garbage_collection)
        without = await _wait_until_loaded(cloud, stop)
        devices = await _start_devices(cloud) if not asked else ""
        if not asked:
            click.echo(
                f"headrace is listening on {config.endpoint_url} (data in {config.data_dir}){without}{devices}"
            )
            for line in how_to_use(config, config.endpoint_url) if says_how_to_use else []:
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


def _build_cloud(config: Config, bound: socket.socket) -> Cloud:
    """Return a cloud on its data directory; raises ClickException, with the socket closed, when it cannot be used."""
    from headrace.aws.signatures.access_keys import KeysRefused
    from headrace.cloud import Cloud, DataDirInUse
    from headrace.store.data_dir import DataDirUnusable, explain_folder_errors

    try:
        with explain_folder_errors(config.data_dir):
            return Cloud(config)
    except (DataDirUnusable, KeysRefused) as error:
        bound.close()
        raise fail(str(error)) from error
    except DataDirInUse as error:
        bound.close()
        running = health(config.data_dir)
        if running is not None:
            second = explain_second(config.data_dir, running["endpoint_url"], config.port)
            raise fail(second) from error
        raise fail(f"{error}; stop it first: headrace down --data-dir {config.data_dir}") from error


async def _start_devices(cloud: Cloud) -> str:
    """Let devices connect; return the end of the line that says where. Raises ClickException."""
    try:
        await asyncio.to_thread(cloud.start_devices)
    except OSError as error:
        ports = f"{cloud.config.mqtt_port} and {cloud.config.mqtt_tls_port}"
        raise fail(f"Cannot listen for MQTT on {ports}: {error.strerror}.") from error
    return devices_sentence(cloud.mqtt.ports())


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
        if clock.monotonic_s() >= say_at_s and status["moto_loading"]["all"]:
            say_at_s = clock.monotonic_s() + SAY_EVERY_S
            click.echo(loading_sentence(status), err=True)
        await asyncio.sleep(LOOK_EVERY_S)
    return ""
