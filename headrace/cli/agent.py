"""`headrace agent`: sends what files receive, as an unchanged `agent.json` of Kinesis Agent says, here or to AWS."""

from __future__ import annotations

import logging
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.interrupts import StopSignals
from headrace.cli.options import client_options, endpoint_option, fail

if TYPE_CHECKING:
    from headrace.agent.config.kinesis_agent import AgentSettings, Flow
    from headrace.agent.senders import Sender


@click.command()
@click.argument("configuration", type=click.Path(path_type=Path))
@click.option("--check", "only_checks", is_flag=True, help="Only read the configuration.")
@click.option("--once", is_flag=True, help="End once every file is read to its end.")
@click.option("--aggregate", is_flag=True, help="Put many records into one, in KPL's format.")
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    help="The file of positions. Default: beside checkpointFile, with .headrace.json at its end.",
)
@endpoint_option
def agent(
    configuration: Path,
    only_checks: bool,
    once: bool,
    aggregate: bool,
    state: Path | None,
    endpoint_url: str,
    region: str,
    aws: bool,
) -> None:
    """Send the new lines of files, as Kinesis Agent's CONFIGURATION (agent.json) says.

    Without --aws everything goes to the local cloud, whatever endpoints and keys the file has.
    """
    from dataclasses import replace

    from headrace.agent.config.errors import ConfigurationError
    from headrace.agent.config.kinesis_agent import read_agent_json
    from headrace.agent.files.positions import PositionsDamaged
    from headrace.agent.running import Agent
    from headrace.core.clock import SystemClock

    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    try:
        settings = read_agent_json(configuration)
    except ConfigurationError as error:
        raise fail(f"{error}.") from error
    if state is not None:
        settings = replace(settings, positions=state)
    if only_checks:
        for flow in settings.flows:
            click.echo(f"{flow.id}")
        return
    stop = threading.Event()

    def make_sender(flow: Flow) -> Sender:
        options = _target(settings, flow, endpoint_url=endpoint_url, region=region, aws=aws)
        return _sender(flow, options, stop, aggregate=aggregate)

    try:
        running = Agent(settings, make_sender, SystemClock(), stop)
    except PositionsDamaged as error:
        raise fail(f"{error}.") from error
    with StopSignals(signal.SIGINT, signal.SIGTERM) as signals:
        signals.call_when_asked(stop.set)
        running.run(once=once)
    for runner in running.runners:
        counts = runner.counts
        left_out = f", {counts.left_out} left out" if counts.left_out else ""
        click.echo(f"{runner.flow.id}: {counts.records} records, {counts.bytes_} bytes{left_out}")


def _target(
    settings: AgentSettings, flow: Flow, *, endpoint_url: str, region: str, aws: bool
) -> dict[str, Any]:
    """Return what reaches the cloud; on AWS, by the keys, the region and the endpoint that the file has, if any."""
    if not aws:
        return client_options(endpoint_url=endpoint_url, region=region, aws=False)
    import boto3  # pyright: ignore[reportMissingTypeStubs]

    keys: dict[str, str] = {}
    if settings.access_key:
        keys = {
            "aws_access_key_id": settings.access_key,
            "aws_secret_access_key": settings.secret_key,
        }
    named = settings.firehose_region if flow.is_firehose else settings.kinesis_region
    endpoint = settings.firehose_endpoint if flow.is_firehose else settings.kinesis_endpoint
    if endpoint and "//" not in endpoint:
        endpoint = f"https://{endpoint}"
    session: Any = boto3.Session(region_name=named or _region_in(endpoint) or region, **keys)
    return {
        "session": session,
        "region": session.region_name,
        "endpoint_url": endpoint or None,
    }


def _region_in(endpoint: str) -> str:
    """Return the region that an AWS endpoint's host names: the file has no other place for it; empty for none."""
    parts = endpoint.partition("//")[2].split(".")
    return parts[1] if len(parts) > 3 and parts[2] == "amazonaws" else ""


def _sender(
    flow: Flow, options: dict[str, Any], stop: threading.Event, *, aggregate: bool
) -> Sender:
    from headrace.agent.senders import FirehoseSender, KinesisSender
    from headrace.core.clock import SystemClock

    if flow.is_firehose:
        session = options["session"]
        client = session.create_client if hasattr(session, "create_client") else session.client
        made = client(
            "firehose", region_name=options["region"], endpoint_url=options["endpoint_url"]
        )
        return FirehoseSender(made, flow.target, SystemClock(), stop)
    from headrace.client import Producer

    producer = Producer(
        flow.target,
        aggregate=aggregate,
        max_records=flow.most_records,
        max_bytes=min(flow.most_bytes, 4 << 20),
        give_up_after_s=None,
        **options,
    )
    return KinesisSender(producer, stop, is_random_key=flow.is_random_key)
