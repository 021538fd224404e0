"""The options of `make run`, from the standard library alone: `--help` shows them before anything is installed."""

from __future__ import annotations

import argparse
from pathlib import Path

FLIGHTS, DEVICES = "flights", "devices"
JANUARY = 1
PORT = 4566
USUAL_DEVICES = 1000
_ABOUT = """Runs the whole pipeline on a cloud and checks every stage against plain pandas. The cloud is headrace,
started empty in `.headrace/` each time, unless `--cloud` names another: `localstack` (started here without Docker,
also empty), an address, or `aws`, which costs money and therefore asks first. The first run installs what it needs."""


def build_parser() -> argparse.ArgumentParser:
    """Return what reads the options; `scripts.run_pipeline` checks their values."""
    parser = argparse.ArgumentParser(prog="make run", description=_ABOUT)
    parser.add_argument("--all", action="store_true", help="replay the whole year, 336,776 flights")
    parser.add_argument("--month", type=int, choices=range(1, 13), default=JANUARY, metavar="1-12")
    parser.add_argument(
        "--flights", type=int, help="replay only this many flights: for slow or costly clouds"
    )
    parser.add_argument(
        "--pipeline",
        choices=(FLIGHTS, DEVICES),
        default=FLIGHTS,
        help="flights, or simulated devices by MQTT; on headrace or aws",
    )
    parser.add_argument(
        "--devices",
        type=int,
        default=USUAL_DEVICES,
        help="how many devices are simulated",
    )
    parser.add_argument("--once", action="store_true", help="stop the cloud at the end")
    parser.add_argument("--speed", default="max", help="max, or a multiple of real time: 3600x")
    parser.add_argument(
        "--cloud",
        default="headrace",
        help="headrace, localstack, http://host:port of a running cloud, or aws",
    )
    parser.add_argument("--yes", action="store_true", help="agree to the cost of a run on AWS")
    parser.add_argument("--port", type=int, help=f"port of headrace or LocalStack; {PORT}")
    parser.add_argument("--data-dir", type=Path, help="headrace's data directory; .headrace")
    return parser


if __name__ == "__main__":
    build_parser().print_help()
