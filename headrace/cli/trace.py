"""`headrace trace`: shows the invocations of an event source mapping's batches, or of one record, as a tree."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from datetime import UTC, datetime
from typing import Any

import click

from headrace.cli.options import endpoint_url_option, fail
from headrace.client.http import ask
from headrace.client.signing import find_keys, signed_headers

_TIMEOUT_S = 10
_MARKS = {"success": "green", "partly done": "yellow", "bisected": "yellow", "open": "yellow"}


@click.command()
@click.argument("mapping")
@click.option("--sequence", "-s", help="Show only the record with this sequence number.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@endpoint_url_option
def trace(mapping: str, sequence: str | None, *, as_json: bool, endpoint_url: str) -> None:
    """Show the batch trees of MAPPING: the UUID of an event-source mapping, or a function's name."""
    reports = _fetch(endpoint_url, mapping, sequence)
    if as_json:
        click.echo(json.dumps(reports, indent=2))
        return
    _show(reports)


def _fetch(endpoint_url: str, mapping: str, sequence: str | None) -> list[dict[str, Any]]:
    query = {"mapping": mapping, **({"sequence": sequence} if sequence else {})}
    url = f"{endpoint_url}/_headrace/lambda/trace?{urllib.parse.urlencode(query)}"
    try:
        request = urllib.request.Request(url, headers=signed_headers(find_keys(), "GET", url))
        with ask(request, _TIMEOUT_S) as answer:
            return json.load(answer)["mappings"]
    except urllib.error.HTTPError as error:
        with error:
            raise fail(_refusal(error, endpoint_url)) from error
    except OSError as error:
        raise fail(f"No cloud answers at {endpoint_url}; start one: headrace up") from error
    except (ValueError, KeyError, TypeError) as error:
        raise fail(f"{endpoint_url} is not a headrace cloud.") from error


def _refusal(error: urllib.error.HTTPError, endpoint_url: str) -> str:
    try:
        return str(json.load(error)["message"])
    except (ValueError, KeyError, TypeError):
        return f"{endpoint_url} is not a headrace cloud."


def _show(reports: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.tree import Tree

    console = Console(highlight=False)
    for report in reports:
        title = f"{report['function'].split(':', 6)[6]} ← {report['source'].split(':', 5)[5]}"
        tree = Tree(f"[bold]{escape(title)}[/]  {escape(report['lastProcessingResult'])}")
        if "outcome" in report:
            where = report["shardId"] or "no shard"
            tree.add(f"record …{report['sequence'][-12:]} of {where}: {escape(report['outcome'])}")
        if not report["trees"] and "outcome" not in report:
            tree.add("no batches yet")
        for node in report["trees"]:
            _add(tree, node)
        console.print(tree)


def _add(tree: Any, node: dict[str, Any]) -> None:
    from rich.markup import escape

    colour = _MARKS.get(node["disposal"], "red")
    records = f"{node['records']} record{'s' if node['records'] != 1 else ''}"
    lane = f" lane {node['lane']}" if node["lanes"] > 1 else ""
    what = node["part"] or f"batch {node['number']} of {node['shard_id']}{lane}"
    span = f" …{node['first'][-8:]}-{node['last'][-8:]}" if node["first"] else ""
    end = escape(f"{node['disposal']} {node['detail']}".strip())
    branch = tree.add(f"{what}: {records}{span} → [{colour}]{end}[/]")
    if len(node["attempts"]) > 1 or node["disposal"] != "success":
        for attempt in _few(node["attempts"]):
            branch.add(escape(_attempt(attempt)))
    for part in node["parts"]:
        _add(branch, part)


def _few(attempts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the first attempts and the last one, so that the tree fits on one screen."""
    return attempts if len(attempts) <= 4 else [*attempts[:2], *attempts[-2:]]


def _attempt(attempt: dict[str, Any]) -> str:
    at = datetime.fromtimestamp(attempt["at_ms"] / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
    detail = f": {attempt['detail'][:100]}" if attempt["detail"] else ""
    return f"{at}  {attempt['duration_ms']} ms  {attempt['outcome']}{detail}"
