"""The command-line options that every job on a stream takes."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

# The trigger of a run that takes what the stream holds, and ends.
DRAIN = "available-now"


def parser(name: str, description: str, trigger: str = DRAIN) -> argparse.ArgumentParser:
    """Return a parser of the arguments that every job takes."""
    result = argparse.ArgumentParser(prog=f"{name}.py", description=description)
    result.add_argument("--stream", required=True)
    result.add_argument("--region", required=True)
    result.add_argument("--output", required=True, help="s3:// URI of the results; see the job")
    result.add_argument("--checkpoint", required=True, help="s3:// URI of the query's progress")
    result.add_argument("--quarantine", help="s3:// URI for unreadable records")
    result.add_argument("--endpoint-url", help="of Kinesis; by default AWS's, or the environment's")
    result.add_argument("--source-format", choices=["kinesis", "aws-kinesis"], default="kinesis")
    result.add_argument("--watermark", default="2 days", help="how late an event may come")
    result.add_argument("--max-records-per-shard", type=int, default=10_000_000)
    result.add_argument(
        "--trigger",
        default=trigger,
        help=f"time between micro-batches of a query that runs on, such as '10 seconds', or {DRAIN} (%(default)s)",
    )
    result.add_argument("--metrics", help="CloudWatch's namespace for the query's metrics")
    return result


def add(the_parser: argparse.ArgumentParser, options: Mapping[str, Mapping[str, Any]]) -> None:
    """Add a job's own options, each with argparse's keywords."""
    for flag, keywords in options.items():
        the_parser.add_argument(flag, **keywords)


def positive(text: str) -> int:
    """Return an option's whole number; refuse one below 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"it is at least 1, not {number}")
    return number


def moment(text: str) -> str:
    """Return an option's ISO time in the form that Spark reads; refuse an invalid time or one without a zone.

    With ANSI mode off, the default before 4.0, Spark would read an invalid time as null.
    """
    try:
        at = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no ISO time with its zone, such as 2013-02-01T00:00:00Z"
        )
    return at.isoformat()


def parse(
    the_parser: argparse.ArgumentParser, argv: Sequence[str], *, to_stream: bool = False
) -> argparse.Namespace:
    """Parse a step's arguments; a folder gets its trailing slash. With `to_stream` the output may be a stream."""
    arguments = the_parser.parse_args(argv)
    for name in ("output", "checkpoint", "quarantine"):
        folder = getattr(arguments, name)
        if folder is not None:
            setattr(arguments, name, folder.rstrip("/") + "/")
    if arguments.output.startswith("kinesis:") and not to_stream:
        the_parser.error("the job's output is a table, which needs a folder, not kinesis://")
    if arguments.output in ("kinesis://", "kinesis:/"):
        the_parser.error("--output kinesis:// lacks the stream's name")
    return arguments
