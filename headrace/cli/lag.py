"""`headrace lag`: lists the resources of a pipeline with their rates and lag, those that fail first."""

from __future__ import annotations

import json
import urllib.error
from typing import Any

import click

from headrace.cli.options import endpoint_url_option, fail, fetch_page


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
@endpoint_url_option
def lag(*, as_json: bool, endpoint_url: str) -> None:
    """Show what reads and writes, how fast and how late, what fails first; exit 2 when something fails."""
    try:
        answer = fetch_page(endpoint_url, "api/resources")
    except urllib.error.HTTPError as error:
        with error:
            raise fail(f"{endpoint_url} answered {error.code}: {error.reason}.") from error
    rows: list[dict[str, Any]] = answer["resources"]
    if as_json:
        click.echo(json.dumps(answer))
    else:
        _print(rows, answer["refused"])
    if any(row["problem"] for row in rows):
        raise SystemExit(2)


def _print(rows: list[dict[str, Any]], refused: list[dict[str, str]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None)
    for heading in ("kind", "name", "state", "records/s", "waiting", "lag", "problem"):
        table.add_column(heading)
    for row in rows:
        rate, _, _, waiting, lag_ms, _ = row["reading"] or [None] * 6
        name = row["facts"].get("title") or row["name"]
        if row["kind"] == "mapping":
            name = f"{row['facts']['source']} → {row['facts']['function']}"
        figures = (
            "" if rate is None else f"{rate:,.1f}",
            "" if waiting is None else f"{waiting:,}",
            "" if lag_ms is None else f"{lag_ms / 1000:,.1f} s",
        )
        cells = (row["kind"], name, row["state"], *figures, row["problem"])
        table.add_row(*(escape(str(cell)) for cell in cells))
    Console(soft_wrap=True).print(table)
    for one in refused:
        click.echo(
            f"{one['service']}:{one['operation']}: {one['code']}: {one['message']}", err=True
        )
