"""`headrace trace`: shows what a mapping, a queue or a channel did with its records, or with one record, as a tree."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import click

from headrace.cli.options import endpoint_url_option, fail, fetch_page
from headrace.core.values import parse_json

# So the cloud's pages begin their sentence when they have nothing of that name.
_NOTHING = "No "
# Of a record that neither the stream nor a kept batch has.
_NOT_THERE = "not in the stream"
_MARKS = {"success": "green", "partly done": "yellow", "bisected": "yellow", "open": "yellow"}


@click.command()
@click.argument("name")
@click.option(
    "--sequence", "-s", help="Show only the record with this sequence number, or its end as shown."
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@endpoint_url_option
def trace(name: str, sequence: str | None, *, as_json: bool, endpoint_url: str) -> None:
    """Show what was done with a stream's records.

    NAME is an event-source mapping (its UUID, or its function's name), whose batches are shown as trees; or a queue or
    a channel of Kinesis (its name or ARN). Of a queue, the records that are not acknowledged are shown.
    """
    about = {"sequence": sequence} if sequence else {}
    reports = _fetch(endpoint_url, "lambda/trace", {"mapping": name, **about}, "mappings")
    show = _show
    if reports is None:
        reports = _fetch(endpoint_url, "kinesis/trace", {"consumer": name, **about}, "consumers")
        show = _show_consumers
    if reports is None:
        hint = _suggest(endpoint_url, name)
        raise fail(f"There is no mapping, mapped function, queue or channel {name}{hint}")
    if as_json:
        click.echo(json.dumps(reports, indent=2))
    else:
        show(reports)
    if sequence and all(report.get("outcome") == _NOT_THERE for report in reports):
        raise click.exceptions.Exit(1)


def _suggest(endpoint_url: str, name: str) -> str:
    """Return what else may be meant: the functions that read the stream `name`, or the nearest mapped function.

    Where no function is mapped, that: a stream by itself has nothing to trace.
    """
    from headrace.sql.types import near

    mappings = _fetch(endpoint_url, "lambda/mappings", {}, "mappings") or []
    # The name of a function is the seventh part of its ARN.
    functions = {one["function"].split(":")[6]: one["source"] for one in mappings}
    readers = [function for function, source in functions.items() if name == _source_name(source)]
    if readers:
        return f"; {name} is read by {', '.join(readers)}: headrace trace {readers[0]}"
    return near(name, list(functions)) or "; no function is mapped to a stream or a queue"


def _source_name(arn: str) -> str:
    """Return the name of a mapping's stream, table or queue."""
    resource = arn.split(":", 5)[5].split("/")
    return resource[1] if len(resource) > 1 else resource[0]


def _fetch(
    endpoint_url: str, page: str, query: dict[str, str], member: str
) -> list[dict[str, Any]] | None:
    """Return the member of a page's data; None when the page has nothing of that name."""
    try:
        return list(fetch_page(endpoint_url, f"{page}?{urllib.parse.urlencode(query)}")[member])
    except urllib.error.HTTPError as error:
        with error:
            sentence = _refusal(error, endpoint_url)
        if error.code == HTTPStatus.NOT_FOUND and sentence.startswith(_NOTHING):
            return None
        raise fail(sentence) from error
    except (KeyError, TypeError) as error:
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
            end = f"record …{report['sequence'][-12:]} of {where}: {escape(report['outcome'])}"
            _add_record(tree.add(end), report)
        if not report["trees"] and "outcome" not in report:
            tree.add("no batches yet")
        for node in report["trees"]:
            _add(tree, node)
        console.print(tree)


def _show_consumers(reports: list[dict[str, Any]]) -> None:
    # Plain lines: a tree would break sequence numbers over lines.
    for report in reports:
        click.echo(f"{report['kind']} {_name(report)} ← {report['stream']}: {_standing(report)}")
        for record in report["records"]:
            key = f" {record['partitionKey']!r}" if record.get("partitionKey") else ""
            number = record.get("sequenceNumber", "")
            click.echo(f"  {record['shardId']} {number}{key}".rstrip())
            click.echo(f"    {record['outcome']}")


def _name(report: dict[str, Any]) -> str:
    return str(report["queue"] if report["kind"] == "queue" else report["name"])


def _standing(report: dict[str, Any]) -> str:
    status = f"{report['status']} {report.get('reason', '')}".strip()
    if report["kind"] == "queue":
        counts = (
            ("visible", "visible"),
            ("inFlight", "in flight"),
            ("deadLetters", "dead letters"),
        )
    else:
        counts = (
            ("delivered_records", "delivered"),
            ("delivered_objects", "objects"),
            ("buffered_records", "waiting"),
            ("failed_records", "refused"),
        )
    figures = [f"{report[name]:,} {word}" for name, word in counts if name in report]
    error = report.get("last_error")
    return ", ".join([status, *figures, *([f"last error: {error}"] if error else [])])


def _add(tree: Any, node: dict[str, Any]) -> None:
    from rich.markup import escape

    colour = _MARKS.get(node["disposal"], "red")
    records = f"{node['records']} record{'s' if node['records'] != 1 else ''}"
    lane = f" lane {node['lane']}" if node["lanes"] > 1 else ""
    what = node["part"] or f"batch {node['number']} of {node['shard_id']}{lane}"
    span = f" …{node['first'][-8:]}-{node['last'][-8:]}" if node["first"] else ""
    end = escape(f"{node['disposal']} {node['detail']}".strip())
    branch = tree.add(f"{what}: {records}{span} → [{colour}]{end}[/]")
    _add_record(branch, node)
    if len(node["attempts"]) > 1 or node["disposal"] != "success":
        for attempt in _few(node["attempts"]):
            branch.add(escape(_attempt(attempt)))
    for part in node["parts"]:
        _add(branch, part)


def _add_record(branch: Any, shown: dict[str, Any]) -> None:
    from rich.markup import escape

    if record := shown.get("record"):
        key = record["partitionKey"]
        branch.add(escape(f"key {key!r}: {record['data']}" if key else record["data"]))


def _few(attempts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the first attempts and the last one, so that the tree fits on one screen."""
    return attempts if len(attempts) <= 4 else [*attempts[:2], *attempts[-2:]]


def _attempt(attempt: dict[str, Any]) -> str:
    at = datetime.fromtimestamp(attempt["at_ms"] / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
    detail = f": {_words(attempt['detail'])[:200]}" if attempt["detail"] else ""
    return f"{at}  {attempt['duration_ms']} ms  {attempt['outcome']}{detail}"


def _words(detail: str) -> str:
    """Return a function's error document as `ValueError: bad record`; another detail as it is."""
    try:
        error = parse_json(detail)
        return f"{error['errorType']}: {error['errorMessage']}"
    except (ValueError, KeyError, TypeError):
        return detail
