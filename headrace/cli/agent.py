"""`headrace agent`: sends events as an unchanged `agent.json` of Kinesis Agent or Flume's file says, here or to AWS."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.interrupts import StopSignals
from headrace.cli.options import client_options, endpoint_option, fail, split_s3_url

if TYPE_CHECKING:
    from headrace.agent.flume.cloud_sinks import CloudOptions
    from headrace.agent.kinesis_agent import AgentSettings, Flow
    from headrace.agent.running import AgentMetrics, Sender
    from headrace.client import Producer

_GIVE_UP_S = 30.0
_PUBLISHED_WITHIN_S = 10.0
# The Java agent's name of its session (observed in its source).
_ROLE_SESSION = "AWSKinesisAgent"


@click.command()
@click.argument("configuration", type=click.Path(path_type=Path))
@click.option("--check", "only_checks", is_flag=True, help="Only read the configuration.")
@click.option("--once", is_flag=True, help="End once every source is at its end.")
@click.option("--aggregate", is_flag=True, help="Put many records into one, in KPL's format.")
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    help="The file of positions. Default: beside checkpointFile, with .headrace.json at its end.",
)
@click.option("--name", help="Which agent of Flume's file. Default: the only one.")
@click.option("--hdfs", metavar="s3://BUCKET/PREFIX", help="What stands for HDFS in Flume's file.")
@endpoint_option
def agent(
    configuration: Path,
    only_checks: bool,
    once: bool,
    aggregate: bool,
    state: Path | None,
    name: str | None,
    hdfs: str | None,
    endpoint_url: str,
    region: str,
    aws: bool,
) -> None:
    """Send new lines of files, as Kinesis Agent and Flume do. CONFIGURATION is an agent.json, or Flume's properties.

    Without --aws everything goes to the local cloud, whatever endpoints and keys the file has.
    """
    from dataclasses import replace

    from headrace.agent.kinesis_agent import read_agent_json
    from headrace.agent.properties import ConfigurationError

    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    try:
        if _is_flumes(configuration):
            if state is not None:
                raise fail("--state is for agent.json; Flume's file names its own folders.")
            flumes = _FlumeReach(
                aggregate=aggregate, endpoint_url=endpoint_url, region=region, aws=aws
            )
            _run_flume(configuration, name, hdfs, flumes, once=once, only_checks=only_checks)
            return
        if name is not None or hdfs is not None:
            raise fail("--name and --hdfs are for Flume's files.")
        settings = read_agent_json(configuration)
    except ConfigurationError as error:
        raise fail(f"{error}.") from error
    log = logging.getLogger("headrace.agent")
    log.setLevel(settings.log_level)
    for warning in settings.warnings:
        log.warning("%s", warning)
    if state is not None:
        settings = replace(settings, positions=state)
    if only_checks:
        for flow in settings.flows:
            click.echo(f"{flow.id}")
        return
    _run_kinesis_agent(
        settings, aggregate=aggregate, once=once, endpoint_url=endpoint_url, region=region, aws=aws
    )


def _run_kinesis_agent(
    settings: AgentSettings, *, aggregate: bool, once: bool, **reach: Any
) -> None:
    """Send what an agent.json's flows find, until a signal, and say how much. Raises ClickException."""
    from headrace.agent.positions import PositionsDamaged
    from headrace.agent.running import Agent, NotSent
    from headrace.core.clock import SystemClock

    stop = threading.Event()
    metrics = _metrics(settings, reach)

    def make_sender(flow: Flow) -> Sender:
        return _sender(flow, _target(settings, flow, **reach), stop, metrics, aggregate=aggregate)

    try:
        running = Agent(settings, make_sender, SystemClock(), stop)
    except PositionsDamaged as error:
        raise fail(f"{error}.") from error
    with StopSignals(signal.SIGINT, signal.SIGTERM) as signals, _publish_beside(metrics):
        signals.call_when_asked(stop.set)
        try:
            running.run(once=once)
        except NotSent as error:
            raise fail(
                f"{str(error).rstrip('.')}. What was not sent goes with the next run."
            ) from error
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
    named = settings.firehose_region if flow.is_firehose else settings.kinesis_region
    endpoint = settings.firehose_endpoint if flow.is_firehose else settings.kinesis_endpoint
    return _on_aws(settings, endpoint, named, region)


def _on_aws(
    settings: AgentSettings, endpoint: str, named_region: str, region: str
) -> dict[str, Any]:
    """Return what reaches a service of AWS by the file's keys and role."""
    target = _reach_aws(
        endpoint,
        named_region,
        region,
        access_key=settings.access_key,
        secret_key=settings.secret_key,
    )
    if settings.role_arn:
        from headrace.client.access import assume_role

        target["session"] = assume_role(
            target["session"], settings.role_arn, _ROLE_SESSION, external_id=settings.external_id,
            endpoint_url=_url(settings.sts_endpoint),
        )  # fmt: skip
    return target


def _reach_aws(
    endpoint: str, named_region: str, region: str, *, access_key: str, secret_key: str
) -> dict[str, Any]:
    """Return what reaches AWS: by keys if there are any, and by an endpoint, with or without its scheme."""
    from botocore.session import Session

    url = _url(endpoint)
    session: Any = Session()
    session.set_config_variable("region", named_region or _region_in(url or "") or region)
    if access_key:
        session.set_credentials(access_key, secret_key)
    return {
        "session": session,
        "region": session.get_config_variable("region"),
        "endpoint_url": url,
    }


def _url(endpoint: str) -> str | None:
    if not endpoint:
        return None
    return endpoint if "//" in endpoint else f"https://{endpoint}"


def _region_in(endpoint: str) -> str:
    """Return the region that an AWS endpoint's host names: the file has no other place for it; empty for none."""
    parts = endpoint.partition("//")[2].split(".")
    return parts[1] if len(parts) > 3 and parts[2] == "amazonaws" else ""


def _metrics(settings: AgentSettings, reach: dict[str, Any]) -> AgentMetrics | None:
    """Return what publishes the agent's metrics, if the file wants it."""
    target = settings.metrics
    if target is None:
        return None
    from headrace.agent.running import AgentMetrics
    from headrace.client.access import AwsAccess
    from headrace.core.clock import SystemClock

    def make_client() -> Any:
        options = (
            _on_aws(settings, target.endpoint, "", reach["region"])
            if reach["aws"]
            else client_options(**reach)
        )
        return AwsAccess(**options).client("cloudwatch")

    return AgentMetrics(make_client, target.namespace, target.every_ms / 1000, SystemClock())


@contextlib.contextmanager
def _publish_beside(metrics: AgentMetrics | None) -> Generator[None]:
    """Publish metrics beside the block, and once more after it."""
    if metrics is None:
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=metrics.run, args=(ended,), name="metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_PUBLISHED_WITHIN_S)


def _sender(
    flow: Flow,
    options: dict[str, Any],
    stop: threading.Event,
    metrics: AgentMetrics | None,
    *,
    aggregate: bool,
) -> Sender:
    from headrace.agent.running import FirehoseSender, KinesisSender
    from headrace.core.clock import SystemClock

    if flow.is_firehose:
        from headrace.client.access import AwsAccess

        return FirehoseSender(
            AwsAccess(**options).client("firehose"), flow.target, SystemClock(), stop,
            most_records=flow.most_records, most_bytes=flow.most_bytes,
            **({} if metrics is None else {"on_request": metrics.noting(f"DeliveryStream:{flow.target}")}),
        )  # fmt: skip
    from headrace.client import Producer

    producer = Producer(
        flow.target,
        aggregate=aggregate,
        max_records=flow.most_records,
        max_bytes=min(flow.most_bytes, 4 << 20),
        give_up_after_s=None,
        on_request=None if metrics is None else metrics.noting(f"KinesisStream:{flow.target}"),
        **options,
    )
    return KinesisSender(producer, stop, is_random_key=flow.is_random_key)


def _is_flumes(path: Path) -> bool:
    """Whether a file has properties: its name does not end in `.json`, and no JSON begins it but for its comments."""
    from headrace.agent.kinesis_agent import blank_comments

    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise fail(f"{path}: {error.strerror}.") from error
    return path.suffix != ".json" and not blank_comments(text).lstrip().startswith(("{", "["))


class _FlumeReach:
    """How the sinks of Flume's agents reach the local cloud, or AWS."""

    def __init__(self, *, aggregate: bool, endpoint_url: str, region: str, aws: bool) -> None:
        self._aggregate, self._aws = aggregate, aws
        self._endpoint_url, self._region = endpoint_url, region

    def _reach(self, options: CloudOptions) -> dict[str, Any]:
        if not self._aws:
            return client_options(endpoint_url=self._endpoint_url, region=self._region, aws=False)
        return _reach_aws(
            options.endpoint, options.region, self._region,
            access_key=options.access_key, secret_key=options.secret_key,
        )  # fmt: skip

    def producer(self, stream: str, options: CloudOptions) -> Producer:
        """See `Reach.producer`. It gives up, so that a group can turn to another sink."""
        from headrace.client import Producer

        return Producer(
            stream, aggregate=self._aggregate, give_up_after_s=_GIVE_UP_S,
            max_buffered_records=200_000, **self._reach(options),
        )  # fmt: skip

    def client(self, service: str, options: CloudOptions) -> Any:
        """See `Reach.client`."""
        from headrace.client.access import AwsAccess

        return AwsAccess(**self._reach(options)).client(service)


def _run_flume(
    path: Path,
    name: str | None,
    hdfs: str | None,
    reach: _FlumeReach,
    once: bool,
    only_checks: bool,
) -> None:
    """Run an agent of Flume's. Raises ConfigurationError, ClickException."""
    from headrace.agent.flume.building import FlumeRun, RunError, agent_names, build
    from headrace.core.clock import SystemClock

    if hdfs is not None and split_s3_url(hdfs) is None:
        raise fail(f"--hdfs is s3://BUCKET/PREFIX, not {hdfs!r}.")
    names = agent_names(path)
    if name is None and len(names) > 1:
        raise fail(f"{path} has the agents {', '.join(names)}: say which with --name.")
    if name is not None and name not in names:
        raise fail(f"{path} has no agent {name}; it has {', '.join(names)}.")
    stop, clock = threading.Event(), SystemClock()
    agent = build(path, name or names[0], reach, clock, stop, hdfs=hdfs or "")
    if only_checks:
        for kind, members in (
            ("source", agent.sources),
            ("channel", agent.channels),
            ("sink", agent.sinks),
        ):
            for member in members:
                click.echo(f"{kind} {member}")
        return
    with StopSignals(signal.SIGINT, signal.SIGTERM) as signals:
        signals.call_when_asked(stop.set)
        try:
            FlumeRun(agent, clock, stop).run(once=once)
        except RunError as error:
            raise fail(f"{error}.") from error
    counts = {f"source {n}": i.counts for n, i in agent.intakes.items()}
    counts |= {f"sink {n}": sink.counts for n, sink in agent.sinks.items()}
    for part, count in counts.items():
        left_out = f", {count.left_out} left out" if count.left_out else ""
        click.echo(f"{part}: {count.events} events, {count.bytes_} bytes{left_out}")
