"""Prints the end of `make run`: the checks, the first results, what is not simulated, and commands to try next."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter

import pandas as pd
from rich.table import Table

from headrace.client.pages import Iam
from headrace.permissions.decisions.report import in_words
from scripts.pipeline.options import DEVICES, FLIGHTS
from scripts.pipeline.run import ROOT, Check, Run, console
from scripts.pipeline.targets import HEADRACE

TITLES = {FLIGHTS: "departures by hour and origin", DEVICES: "sessions of devices"}


def summary(run: Run, windows: pd.DataFrame, seconds: float, *, stays: bool) -> bool:
    """Print the results; return whether every check holds."""
    console.print(checks_table(run.checks))
    console.print(preview(windows, TITLES[run.pipeline]))
    holds = all(check.holds for check in run.checks)
    verdict = "[green]everything holds[/]" if holds else "[red]something is wrong[/]"
    where = f"the endpoint is [bold]{run.endpoint_url}[/]" if run.endpoint_url else "on AWS"
    console.print(f"{verdict} after {seconds:.0f} s; {where}")
    for stage, reason in run.not_here.items():
        console.print(
            f"[yellow]not on this cloud[/] ({run.product}): {stage}: {reason}", soft_wrap=True
        )
    if run.product == HEADRACE:
        console.print(fidelity(run))
        for line in in_words(Iam(run.endpoint_url).report(), most=5):
            console.print(line, soft_wrap=True, markup=False)
    # A cloud that is about to stop cannot be tried.
    if stays:
        console.print("\ntry it:")
        for line in invitations(run):
            console.print(f"  {line}", soft_wrap=True, markup=False)
    return holds


def fidelity(run: Run) -> str:
    """Return a line about the properties of the deployed stacks that have no effect on the local cloud."""
    page = f"{run.endpoint_url}/_headrace/fidelity"
    with urllib.request.urlopen(page, timeout=10) as answer:
        rows: list[dict[str, str]] = json.load(answer)
    own = [row for row in rows if row["stack"] not in ("", "CDKToolkit")]
    levels = Counter(row["level"] for row in own)
    return (
        f"of the stacks' properties {levels['stored']} are stored without effect and"
        f" {levels['ignored']} ignored: {page}"
    )


def checks_table(checks: list[Check]) -> Table:
    """Return the table of the checks: expected and found values."""
    table = Table(title="input = output", title_justify="left", header_style="bold")
    for name in ("stage", "what"):
        table.add_column(name)
    for name in ("expected", "found"):
        table.add_column(name, justify="right")
    table.add_column("")
    table.add_column("", overflow="fold")
    last = ""
    for check in checks:
        mark = "[green]ok[/]" if check.holds else "[red]WRONG[/]"
        values = (
            f"{value:,}" if isinstance(value, int) else str(value)
            for value in (check.expected, check.found)
        )
        stage = check.stage if check.stage != last else ""
        table.add_row(stage, check.what, *values, mark, check.detail)
        last = check.stage
    return table


def preview(windows: pd.DataFrame, title: str) -> Table:
    """Return the first rows of the Spark job's result."""
    table = Table(
        title=f"{title} (first lines)",
        title_justify="left",
        header_style="bold",
    )
    for name in windows.columns:
        table.add_column(str(name))
    for row in windows.head(6).itertuples(index=False):
        table.add_row(*(f"{v:.1f}" if isinstance(v, float) else str(v) for v in row))
    return table


def invitations(run: Run) -> list[str]:
    """Return a command to try for each of boto3, the AWS CLI and headrace."""
    there = " ".join(
        f"{name}={value}"
        for name, value in run.target.environment().items()
        if name != "AWS_REGION"
    )
    of_flights = run.pipeline == FLIGHTS
    stream = (
        run.output("ingest", "EnrichedStreamName")
        if of_flights
        else run.output("devices", "TelemetryStreamName")
    )
    code = "import boto3; print(boto3.client('kinesis').list_streams()['StreamNames'])"
    aws = ".venv/bin/aws" if " " not in str(ROOT) else ".venv/bin/python -m awscli"
    lines = [f'{there} .venv/bin/python -c "{code}"'.lstrip()]
    if of_flights and "delivery" not in run.not_here:
        bucket = run.output("delivery", "LakeBucketName")
        lines.append(f"{there} {aws} s3 ls s3://{bucket} --recursive".lstrip())
    if run.product == HEADRACE:
        lines.append(
            f"AWS_ENDPOINT_URL={run.endpoint_url} .venv/bin/headrace tail {stream} --from TRIM_HORIZON --limit 3"
        )
    if run.target.is_aws:
        app = run.data_dir / "cdk.out"
        lines.append(f"cdk/node_modules/.bin/cdk destroy --all --app {app}   # ends the costs")
    return lines
