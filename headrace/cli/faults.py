"""`headrace faults`: makes the running cloud throttle, fail, delay or drop requests."""

# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import click
from rich.table import Table

from headrace.cli.options import endpoint_url_option, fail, print_table
from headrace.client.faults import FaultError, Faults

# A member's name, in quotes or not. Members of one word are words of sentences too, and of streams' names.
_MEMBER = re.compile(r"(?P<quote>'?)\b(?P<name>[a-z]+(?:_[a-z]+)+)\b(?P=quote)")


@click.group()
def faults() -> None:
    """Inject faults into clients' requests. Faults end with the cloud."""


@faults.command()
@click.argument("fault", type=click.Choice(["throttle", "error", "partial", "latency", "drop"]))
@click.option(
    "--service", help="botocore's name of a service, such as kinesis; default: every service."
)
@click.option("--action", help="Such as PutRecords.")
@click.option("--stream", help="A Kinesis stream's name.")
@click.option("--shard", help="Such as shardId-000000000000.")
@click.option(
    "--probability",
    type=float,
    default=1.0,
    show_default=True,
    help="The probability that it acts, 0 to 1.",
)
@click.option("--count", type=int, help="How often it acts at most.")
@click.option("--seed", type=int, help="The same seed and requests give the same faults.")
@click.option("--latency-ms", type=int, help="The delay of a latency fault.")
@click.option("--error-code", help="AWS's code instead of the usual one.")
@click.option("--error-message", help="Its sentence.")
@click.option(
    "--when",
    type=click.Choice(["before", "after"]),
    help="Drop the connection before or after the request is executed.",
)
@click.option(
    "--even-if-missing", is_flag=True, help="Accept a stream or shard that does not exist yet."
)
@endpoint_url_option
def add(fault: str, *, endpoint_url: str, **members: Any) -> None:
    """Add a rule and print its id."""
    try:
        rule = Faults(endpoint_url).add(fault, **members)
    except FaultError as error:
        raise fail(_with_options(str(error), members)) from error
    click.echo(rule["id"])


def _with_options(sentence: str, members: Mapping[str, Any]) -> str:
    """Return the cloud's sentence about a rule with this command's options in place of the rule's members."""

    def option_of(word: re.Match[str]) -> str:
        return f"--{word['name'].replace('_', '-')}" if word["name"] in members else word[0]

    return _MEMBER.sub(option_of, sentence)


@faults.command(name="list")
@endpoint_url_option
def list_(endpoint_url: str) -> None:
    """Print every rule, and how often it has acted."""
    try:
        rules = Faults(endpoint_url).list()
    except FaultError as error:
        raise fail(str(error)) from error
    if not rules:
        click.echo("There are no faults.")
        return
    table = Table("id", "fault", "of", "how", "acted", box=None)
    for rule in rules:
        of = [rule[name] for name in ("service", "action", "stream", "shard") if name in rule]
        shown = ("probability", "count", "seed", "latency_ms", "error_code", "when")
        how = [f"{name}={rule[name]}" for name in shown if name in rule]
        table.add_row(
            rule["id"],
            rule["fault"],
            " ".join(of) or "everything",
            " ".join(how),
            str(rule["acted"]),
        )
    print_table(table, 160)


@faults.command()
@click.argument("fault_id", required=False)
@endpoint_url_option
def clear(fault_id: str | None, endpoint_url: str) -> None:
    """Remove every rule, or the one with FAULT_ID."""
    client = Faults(endpoint_url)
    try:
        if fault_id is not None:
            client.remove(fault_id)
            return
        click.echo(f"{client.clear()} removed")
    except FaultError as error:
        raise fail(str(error)) from error
