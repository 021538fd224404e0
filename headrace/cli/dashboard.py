"""`headrace dashboard`: the live page: the address of the cloud's own, or with --aws a server for an account on AWS."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from headrace.cli.options import client, endpoint_option, fail, sentence

DEFAULT_PAGE_PORT = 4567


@click.command()
@endpoint_option
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PAGE_PORT,
    show_default=True,
    help="With --aws: the port of the page; 0 takes a free one.",
)
def dashboard(*, endpoint_url: str, region: str, aws: bool, port: int) -> None:
    """Print the address of the pipeline's live page. With --aws, serve it read-only for your account."""
    if not aws:
        click.echo(f"{endpoint_url}/_headrace/")
        return

    def make_client(service: str) -> Any:
        return client(service, endpoint_url=endpoint_url, region=region, aws=True)

    try:
        asyncio.run(_serve(make_client, region, port))
    except OSError as error:
        raise fail(f"Port {port} of 127.0.0.1: {sentence(error)}") from error


async def _serve(make_client: Callable[[str], Any], region: str, port: int) -> None:
    from headrace.aws.calls.http import HttpRequest, HttpResponse
    from headrace.aws.gateway.documents import refuse, restrain
    from headrace.aws.gateway.hosts import Hosts, foreign_origin
    from headrace.aws.server.server import Server, bind
    from headrace.core.clock import SystemClock
    from headrace.core.workers import Supervisor
    from headrace.dashboard.api import Dashboard, page_file
    from headrace.dashboard.aws import EVERY_S, AwsAccount, CloudWatchMeter
    from headrace.dashboard.sampler import Rings, Sampler
    from headrace.pages.routes import Routes, for_people

    clock = SystemClock()
    bound = bind("127.0.0.1", port)
    account = await asyncio.to_thread(AwsAccount, make_client, region)
    meter = CloudWatchMeter(account, clock)
    sampler = Sampler(account, meter, clock, Rings(), every_s=EVERY_S)
    page = Dashboard(sampler, clock, token="", local=None, history=meter.history)
    routes = Routes([*for_people("/_headrace", page_file), *page.routes()])
    hosts = Hosts()

    def answer(request: HttpRequest) -> HttpResponse:
        host = request.headers.get("host", "")
        is_document = request.headers.get("sec-fetch-dest") == "document"
        if not hosts.owns(host):
            return refuse(request, 421, "HostNotAllowed", "This page is served on 127.0.0.1 alone.")
        if foreign_origin(request.headers) is not None and not is_document:
            sentence = "No page of another origin may read this."
            return refuse(request, 403, "OriginNotAllowed", sentence)
        if request.path == "/":
            return restrain(HttpResponse(302, [("Location", "/_headrace/")]))
        return routes.answer(request)

    supervisor = Supervisor(clock)
    sampler.start(supervisor)
    with tempfile.TemporaryDirectory() as folder:
        server = Server(answer, is_inline=lambda _: False, temp_dir=Path(folder))
        await server.start(bound)
        click.echo(f"http://127.0.0.1:{bound.getsockname()[1]}/_headrace/")
        try:
            await asyncio.Event().wait()
        finally:
            await server.stop()
            supervisor.stop_all()
