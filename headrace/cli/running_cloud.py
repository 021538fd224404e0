"""Finds the cloud that runs on a data directory, by its run file, its health page, and its lock.

Puts a cloud's health page into sentences, for `headrace up` and `headrace status`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shlex
from pathlib import Path
from typing import Any, cast

import click

from headrace.client.pages import ask
from headrace.core.config import DEFAULT_PORT, DEFAULT_REGION, Config

RUN_FILE = "headrace.json"
LOG_FILE = "headrace.log"
# The lock file of headrace.store.data_dir, which is not imported because that takes long.
LOCK_FILE = "lock"
HEALTH_WITHIN_S = 2.0
# For commands that wait for a cloud: how often they check, how often they print the progress; how long a stop may take.
LOOK_EVERY_S = 0.02
SAY_EVERY_S = 2.0
STOP_WITHIN_S = 20.0


def write_run_file(config: Config) -> None:
    """Write the run file of this cloud into its data directory, atomically if the disk has room. Raises OSError."""
    record = {
        "pid": os.getpid(),
        "port": config.port,
        "endpoint_url": config.endpoint_url,
        "region": config.region,
    }
    path = config.data_dir / RUN_FILE
    partial = path.with_suffix(".partial")
    try:
        partial.write_text(json.dumps(record))
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        if error.errno != errno.ENOSPC or not path.exists():
            raise
        # On a full disk, into the blocks of a killed cloud's file.
        path.write_text(json.dumps(record))


def _run_record(data_dir: Path) -> dict[str, Any] | None:
    """Return the run file's content; None when there is none."""
    try:
        record: Any = json.loads((data_dir / RUN_FILE).read_text())
        return {
            "pid": int(record["pid"]),
            "endpoint_url": str(record["endpoint_url"]),
            # An older headrace's run file has none.
            "region": str(record.get("region", DEFAULT_REGION)),
        }
    except (OSError, ValueError, TypeError, KeyError):
        return None


def find_endpoint_url() -> str:
    """Return the URL of the cloud of this folder: of HEADRACE_DATA_DIR or `.headrace`; else the default URL.

    Its run file may be of a cloud that was killed; whoever connects finds out.
    """
    record = _run_record(Path(os.environ.get("HEADRACE_DATA_DIR") or ".headrace"))
    return f"http://127.0.0.1:{DEFAULT_PORT}" if record is None else record["endpoint_url"]


def find_region(data_dir: Path) -> str:
    """Return the region of requests that name none, of the cloud that runs on `data_dir`; else the default."""
    record = _run_record(data_dir)
    return DEFAULT_REGION if record is None else record["region"]


def health(data_dir: Path) -> dict[str, Any] | None:
    """Return the health page of the cloud that runs on `data_dir`, or None."""
    record = _run_record(data_dir)
    if record is None:
        return None
    page = health_at(record["endpoint_url"])
    # Another cloud or another program may have taken the port since.
    return page if page.get("pid") == record["pid"] else None


def health_at(endpoint_url: str) -> dict[str, Any]:
    """Return the health page of whatever answers at a URL; empty when nothing answers, or something else does."""
    try:
        with ask(f"{endpoint_url}/_headrace/health", HEALTH_WITHIN_S) as response:
            answer: Any = json.load(response)
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", answer if isinstance(answer, dict) else {})


def explain_second(data_dir: Path, endpoint_url: str, port: int) -> str:
    """Return the sentence for a start on port `port` of a second cloud on a data directory: one runs, what to do."""
    second = shlex.quote(f"{data_dir}-{port}")
    return (
        f"another headrace is running on {data_dir}, at {endpoint_url}; use that one, stop it (headrace down"
        f" --data-dir {shlex.quote(str(data_dir))}), or start a second one on a folder of its own: headrace up"
        f" --port {port} --data-dir {second}"
    )


def held_data_dirs() -> list[Path]:
    """Return the data directory of every cloud of this machine whose files this user may see, in no order.

    Clouds hold locks, which the kernel lists with the process; the process's files tell the path. Raises OSError on a
    system that does not list them (macOS).
    """
    folders: set[Path] = set()
    for line in _kernel_locks():
        # A line is: number, FLOCK, ADVISORY, WRITE, process, device and inode, start, end.
        words = line.split()
        if words[1] != "FLOCK":
            continue
        pid, inode = words[4], int(words[5].rpartition(":")[2])
        # The process has ended since, or belongs to another user.
        with contextlib.suppress(OSError):
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    path = descriptor.readlink()
                    is_lock = path.name == LOCK_FILE and path.stat().st_ino == inode
                    if is_lock and (path.parent / RUN_FILE).exists():
                        folders.add(path.parent)
    return list(folders)


def silent_cloud(data_dir: Path) -> str | None:
    """Return a sentence when a cloud holds the data directory but does not answer; None when none is known to."""
    # Read from the kernel's list: trying the lock would hold it for a moment, in which a cloud could not start.
    try:
        inode = f":{(data_dir / LOCK_FILE).stat().st_ino} "
        is_held = any(" FLOCK " in line and inode in line for line in _kernel_locks())
    except OSError:
        return None
    if not is_held:
        return None
    log_path = data_dir / LOG_FILE
    return f"The headrace on {data_dir} does not answer: it is starting or stopping, or hangs; see {log_path}"


def missing_cloud(data_dir: Path) -> str:
    """Return the sentence about a data directory whose `health` is None."""
    none = f"No headrace runs on {data_dir}; start one: headrace up"
    return silent_cloud(data_dir) or none


def _kernel_locks() -> list[str]:
    """Return every file lock of this machine, if the system lists them."""
    return Path("/proc/locks").read_text().splitlines()


def moto_progress(status: dict[str, Any]) -> str:
    """Return a phrase about how much is loaded."""
    loading = status["moto_loading"]
    return f"{loading['done']:,} of {loading['all']:,}"


def loading_sentence(status: dict[str, Any]) -> str:
    """Return what a cloud that is not ready does."""
    if not status.get("moto_loading", {}).get("all"):
        return "starting"
    return f"loading the state of moto's services: {moto_progress(status)}"


def devices_sentence(ports: dict[str, int] | None) -> str:
    """Return where devices connect by MQTT, as the end of a line; empty when they cannot."""
    if not ports:
        return ""
    named = ("plain", "in plain text"), ("tls", "with TLS")
    return ", MQTT on " + " and ".join(
        f"port {ports[key]} {words}" for key, words in named if key in ports
    )


def print_losses(page: dict[str, Any]) -> None:
    """Print which records the cloud found missing when it started."""
    for sentence in page.get("losses", ()):
        click.echo(f"Warning: {sentence}; see: headrace check --repair", err=True)


def moto_phrase(page: dict[str, Any]) -> str:
    """Return a phrase about the state of moto's services on a health page."""
    if page["moto"] == "loading":
        return f"loading, {moto_progress(page)}"
    return ": ".join(filter(None, (page["moto"], page.get("moto_failure"))))
