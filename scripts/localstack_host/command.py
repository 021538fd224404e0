"""The command `scripts/localstack up|down|status`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from scripts.localstack_host import host
from scripts.localstack_host.installation import ROOT, HostError, Installation

FOLDER = ROOT / ".localstack"
# LocalStack's default port, which is also headrace's.
PORT = 4566


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(
        prog="scripts/localstack", description="LocalStack on this machine, without Docker."
    )
    parser.add_argument("action", choices=("up", "down", "status"))
    parser.add_argument(
        "--port", type=int, default=PORT, help="port, by default 4566; 0: any free one"
    )
    parser.add_argument(
        "--folder", type=Path, default=FOLDER, help="the folder of its environment and data"
    )
    options = parser.parse_args(arguments)
    if not 0 <= options.port <= 65_535:
        parser.error(f"--port must lie between 0 and 65535, and {options.port} does not")
    return options


def main() -> int:
    """Run the command; return 0 on success, and for `status` if LocalStack is up."""
    options = parse(sys.argv[1:])
    installation = Installation(options.folder.resolve())
    try:
        return {"up": _up, "down": _down, "status": _status}[options.action](
            installation, options.port
        )
    except HostError as error:
        print(f"headrace: {error}", file=sys.stderr)
        return 1


def _up(installation: Installation, port: int) -> int:
    if not installation.is_current():
        print(f"installing LocalStack into {installation.environment} (once; about two minutes)")
    started = host.up(installation, port)
    print(f"LocalStack is up: {started.endpoint_url}")
    return 0


def _down(installation: Installation, _port: int) -> int:
    print("LocalStack is stopped" if host.down(installation) else "LocalStack is not up")
    return 0


def _status(installation: Installation, _port: int) -> int:
    found = host.running(installation)
    health = None if found is None else host.health(found.endpoint_url)
    if found is None or health is None:
        print("LocalStack is not up")
        return 1
    used = sorted(name for name, state in health["services"].items() if state == "running")
    print(f"LocalStack {health['version']} is up: {found.endpoint_url}, process {found.pid}")
    print(f"services in use: {', '.join(used) or 'none yet'}; log: {installation.log}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
