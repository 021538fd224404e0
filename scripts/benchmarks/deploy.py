"""Measures deployments by CloudFormation: the stacks of `cdk/`, 200 resources with few dependencies, 500 resources.

headrace beside moto's server and ministack, one cloud at a time; only headrace gets the stacks of `cdk/`. Each figure
is the time from the request to the end of the operation, for a client that polls every 20 ms.
"""

from __future__ import annotations

import io
import json
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from rich.console import Console
from rich.table import Table

from scripts.benchmarks.sdk import ACCOUNT, client_of
from scripts.benchmarks.servers import CannotStart, running

CLOUDS = ("headrace", "moto", "ministack")
LOOK_EVERY_S = 0.02
WITHIN_S = 300.0
FEW, MANY = 200, 500
MANY_BYTES = 950_000
_ALLOWED = ["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"]
_TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": "lambda.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
    ],
}
# Resource types that all three clouds support.
_KINDS: list[tuple[str, dict[str, Any]]] = [
    ("AWS::SQS::Queue", {}),
    ("AWS::SNS::Topic", {}),
    ("AWS::Logs::LogGroup", {}),
    ("AWS::SSM::Parameter", {"Type": "String", "Value": "v"}),
    ("AWS::IAM::Role", {"AssumeRolePolicyDocument": _TRUST}),
    ("AWS::Kinesis::Stream", {"ShardCount": 1}),
    ("AWS::S3::Bucket", {}),
    ("AWS::SQS::Queue", {"DelaySeconds": 5}),
]


class Failed(Exception):
    """A stack was not created; the sentence says why."""


def few() -> str:
    """Return a template of 200 resources, where every tenth depends on the one before."""
    resources: dict[str, Any] = {}
    for number in range(FEW):
        kind, properties = _KINDS[number % len(_KINDS)]
        resources[f"R{number}"] = {"Type": kind, "Properties": properties}
        if number % 10 == 9:
            resources[f"R{number}"]["DependsOn"] = f"R{number - 1}"
    return json.dumps({"Resources": resources})


def many() -> str:
    """Return a template of 500 resources and nearly a megabyte."""
    value = "v" * (MANY_BYTES // MANY - 120)
    properties = {"Type": "String", "Value": value, "Description": {"Fn::Sub": "${AWS::StackName}"}}
    resources = {
        f"R{number}": {"Type": "AWS::SSM::Parameter", "Properties": properties}
        for number in range(MANY)
    }
    return json.dumps({"Resources": resources})


def ended(cfn: Any, name: str) -> None:
    """Wait until a stack is created. Raises Failed."""
    deadline_s = time.monotonic() + WITHIN_S
    while not has_ended(cfn, name):
        if time.monotonic() > deadline_s:
            raise Failed(f"{name} is not created after {WITHIN_S:.0f} s")
        time.sleep(LOOK_EVERY_S)


def has_ended(cfn: Any, name: str) -> bool:
    """Whether a stack is created. Raises Failed when it never will be."""
    status = cfn.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]
    if status != "CREATE_COMPLETE" and not status.endswith("IN_PROGRESS"):
        raise Failed(f"{name} is {status}")
    return status == "CREATE_COMPLETE"


def make_at_once(cfn: Any, out: Path) -> list[str]:
    """Create an app's stacks, each as soon as those that it needs are there; return their names. Raises Failed.

    `cdk deploy --concurrency` does so, and `make run`.
    """
    waiting, running, made = needs_of(out), set[str](), list[str]()
    deadline_s = time.monotonic() + WITHIN_S
    while waiting or running:
        for name in [name for name, needs in waiting.items() if needs <= set(made)]:
            del waiting[name]
            body = (out / f"{name}.template.json").read_text()
            cfn.create_stack(StackName=name, TemplateBody=body, Capabilities=_ALLOWED)
            running.add(name)
        new = [name for name in running if has_ended(cfn, name)]
        made += new
        running -= set(new)
        if time.monotonic() > deadline_s:
            raise Failed(f"not created after {WITHIN_S:.0f} s: {running}")
        if not new:
            time.sleep(LOOK_EVERY_S)
    return made


def took_s(started_s: float) -> float:
    """Return the seconds since a moment."""
    return time.perf_counter() - started_s


def small_rows(port: int, templates: str) -> Iterator[tuple[str, float]]:
    """Yield the figures that every cloud has; `templates` is the bucket's URL. Raises Failed, ClientError."""
    s3, cfn = client_of("s3", port), client_of("cloudformation", port)
    s3.create_bucket(Bucket="bench-templates")
    for name, body in (("few", few()), ("many", many())):
        s3.put_object(Bucket="bench-templates", Key=name, Body=body.encode())
    started_s = time.perf_counter()
    cfn.create_stack(StackName="few", TemplateURL=f"{templates}few", Capabilities=_ALLOWED)
    ended(cfn, "few")
    yield f"{FEW} resources made", took_s(started_s)
    started_s = time.perf_counter()
    changes = {"StackName": "many", "ChangeSetName": "c", "ChangeSetType": "CREATE"}
    cfn.create_change_set(TemplateURL=f"{templates}many", **changes)
    while cfn.describe_change_set(StackName="many", ChangeSetName="c")["Status"].endswith(
        ("PENDING", "PROGRESS")
    ):
        time.sleep(LOOK_EVERY_S)
    yield f"{MANY} resources, {MANY_BYTES:,} B: change set", took_s(started_s)


def app_rows(port: int) -> Iterator[tuple[str, float]]:
    """Yield the time to deploy the stacks of `cdk/`, and again without a change. Raises Failed, ClientError."""
    from cdk.app import build, new_app

    cfn, s3 = client_of("cloudformation", port), client_of("s3", port)
    with tempfile.TemporaryDirectory() as folder:
        app = new_app(folder)
        build(app)
        app.synth()
        out = Path(folder)
        client_of("ssm", port).put_parameter(
            Name="/cdk-bootstrap/hnb659fds/version", Value="21", Type="String"
        )
        made: set[str] = set()
        for file in sorted(out.glob("*.assets.json")):
            for asset in json.loads(file.read_text())["files"].values():
                _upload(s3, out, asset, made)
        started_s = time.perf_counter()
        names = make_at_once(cfn, out)
        yield f"the {len(names)} stacks of cdk/", took_s(started_s)
        started_s = time.perf_counter()
        for name in names:
            body = (out / f"{name}.template.json").read_text()
            changes = {"StackName": name, "ChangeSetName": "again", "Capabilities": _ALLOWED}
            cfn.create_change_set(TemplateBody=body, **changes)
            change_set = cfn.describe_change_set(StackName=name, ChangeSetName="again")
            if change_set["Status"] != "FAILED":
                raise Failed(f"{name} has unexpected changes: {change_set['Changes']}")
        yield "the same again, without a change", took_s(started_s)


def _upload(s3: Any, out: Path, asset: dict[str, Any], made: set[str]) -> None:
    for where in asset["destinations"].values():
        bucket = where["bucketName"].replace("${AWS::AccountId}", ACCOUNT)
        bucket = bucket.replace("${AWS::Region}", "us-east-1")
        if bucket not in made:
            s3.create_bucket(Bucket=bucket)
            made.add(bucket)
        path = out / asset["source"]["path"]
        data = _zipped(path) if path.is_dir() else path.read_bytes()
        s3.put_object(Bucket=bucket, Key=where["objectKey"], Body=data)


def _zipped(folder: Path) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(folder))
    return packed.getvalue()


def needs_of(out: Path) -> dict[str, set[str]]:
    """Return the names of an app's stacks, each with the stacks that it needs."""
    artifacts = json.loads((out / "manifest.json").read_text())["artifacts"]
    return {
        name: {other for other in value.get("dependencies", ()) if not other.endswith(".assets")}
        for name, value in artifacts.items()
        if value["type"] == "aws:cloudformation:stack"
    }


def measured(cloud: str) -> dict[str, float | str]:
    """Return a cloud's figures, in seconds, and the reason for a missing one."""
    found: dict[str, float | str] = {}
    rows: list[tuple[str, Callable[[int], Iterator[tuple[str, float]]]]] = [
        (
            f"{FEW} and {MANY} resources",
            # moto finds a bucket only by AWS's URL.
            lambda port: small_rows(
                port,
                "https://bench-templates.s3.amazonaws.com/"
                if cloud == "moto"
                else f"http://127.0.0.1:{port}/bench-templates/",
            ),
        )
    ]
    if cloud == "headrace":
        rows.append(("cdk/", app_rows))
    for what, row in rows:
        try:
            with running(cloud, -1) as server:
                found.update(row(server.port))
        except (CannotStart, Failed, ClientError, BotoCoreError, ResponseParserError) as error:
            found[what] = str(error)[:200]
    return found


@click.command()
@click.option("--cloud", "clouds", multiple=True, default=CLOUDS, type=click.Choice(CLOUDS))
def main(clouds: tuple[str, ...]) -> None:
    """Measure deployments."""
    figures = {cloud: measured(cloud) for cloud in clouds}
    table = Table("what", *clouds)
    for what in dict.fromkeys(name for of_cloud in figures.values() for name in of_cloud):
        shown = [figures[cloud].get(what, "-") for cloud in clouds]
        table.add_row(what, *(x if isinstance(x, str) else f"{x:.2f} s" for x in shown))
    Console().print(table)


if __name__ == "__main__":
    main()
