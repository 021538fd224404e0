"""`headrace iam`: shows which requests AWS would deny and why, and the smallest policy for a role."""

from __future__ import annotations

import json

import click

from headrace.cli.options import endpoint_url_option, fail, print_line
from headrace.client.pages import Iam, IamError


@click.group()
def iam() -> None:
    """Find requests that AWS would deny, before you deploy."""


@iam.command()
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--clear", is_flag=True, help="Clear the report.")
@endpoint_url_option
def report(*, endpoint_url: str, as_json: bool, clear: bool) -> None:
    """Print which requests to this cloud AWS would deny. It is the data directory's; kill -9 loses the last seconds."""
    cloud = Iam(endpoint_url)
    try:
        if clear:
            click.echo(f"{cloud.clear()} forgotten")
            return
        report_body = cloud.report()
    except IamError as error:
        raise fail(str(error)) from error
    if as_json:
        click.echo(json.dumps(report_body, indent=2))
        return
    from headrace.permissions.decisions.report import in_words

    for line in in_words(report_body, most=len(report_body["denied"])):
        print_line(line)
    for row in report_body["unknown"]:
        print_line(f"Not looked at: {row['operation']} ({row['count']:,} times)")


@iam.command()
@click.argument("role")
@endpoint_url_option
def policy(role: str, *, endpoint_url: str) -> None:
    """Print the smallest policy for the requests of ROLE. ROLE is a name or an ARN. Print unused statements, too."""
    try:
        policy_body = Iam(endpoint_url).policy(role)
    except IamError as error:
        raise fail(str(error)) from error
    click.echo(json.dumps(policy_body["policy"], indent=2))
    for unused in policy_body["unused"]:
        click.echo(f"Nobody used: {unused}", err=True)


@iam.command()
@click.argument("arn")
@click.argument("action")
@click.argument("resource", default="*")
@endpoint_url_option
def why(arn: str, action: str, resource: str, *, endpoint_url: str) -> None:
    """Print whether ARN may do ACTION on RESOURCE, and why. The statements that decide it are printed."""
    try:
        explanation = Iam(endpoint_url).why(arn, action, resource)
    except IamError as error:
        raise fail(str(error)) from error
    for line in explanation["lines"]:
        print_line(line)
