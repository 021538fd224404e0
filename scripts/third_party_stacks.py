"""Deploys, feeds and destroys stacks that were not written for headrace, and reports which of them work.

`python -m scripts.third_party_stacks [CASE ...]` takes the stacks of `scripts/strangers/app.js` (aws-cdk-lib's
constructs, AWS Solutions Constructs, installed by npm) and the templates in `scripts/strangers/templates`. It deploys
each into a cloud in a separate process, puts in the data that `flows.json` names, waits until it arrives, and destroys
the stack. A `*` at the end of a CASE stands for any ending. Exits 1 when a case does not pass.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts.benchmarks.servers import free_port
from scripts.third_party_flows import ACCOUNT, REGION, SINK, Cloud, feed

HERE = Path(__file__).parent / "strangers"
ASSETS = f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"
DEPLOYED_WITHIN_S = 120.0
CAPABILITIES = ["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"]


# --- a case ---------------------------------------------------------------------------------------


class Outcome:
    """A case's result: whether it deploys, whether data flows (None: none is sent), and whether it is destroyed."""

    def __init__(self, name: str, flow: Sequence[str]) -> None:
        self.name, self.flow = name, flow
        self.deploys = self.destroys = False
        self.flows: bool | None = None
        self.why = ""

    @property
    def passes(self) -> bool:
        """Whether the case passes."""
        return self.deploys and self.destroys and self.flows is not False


class Case(Outcome):
    """One stack, and its result."""

    def __init__(self, name: str, template: Path, flow: Sequence[str]) -> None:
        super().__init__(name, flow)
        self.template = template

    def run(self, cloud: Cloud) -> None:
        """Deploy, feed and destroy it."""
        try:
            self._publish(cloud)
            self._deploy(cloud)
            if self.deploys and self.flow:
                self._feed(cloud)
        except Exception as error:  # noqa: BLE001 - the table shows every error
            self.why = self.why or f"{type(error).__name__}: {error}"[:300]
            if self.deploys:
                self.flows = False
        self._destroy(cloud)

    def _publish(self, cloud: Cloud) -> None:
        """Upload the assets, as the CDK CLI does."""
        listed = self.template.with_name(f"{self.name}.assets.json")
        files = json.loads(listed.read_text())["files"] if listed.exists() else {}
        for asset in files.values():
            source = listed.parent / asset["source"]["path"]
            body = _zipped(source) if asset["source"]["packaging"] == "zip" else source.read_bytes()
            for destination in asset["destinations"].values():
                cloud("s3").put_object(Bucket=ASSETS, Key=destination["objectKey"], Body=body)

    def _deploy(self, cloud: Cloud) -> None:
        body = self.template.read_bytes()
        cloud("s3").put_object(Bucket=ASSETS, Key=f"{self.name}.template", Body=body)
        cloud("cloudformation").create_stack(
            StackName=self.name,
            TemplateURL=f"{cloud.url}/{ASSETS}/{self.name}.template",
            Capabilities=CAPABILITIES,
        )
        self.deploys = self._status(cloud) == "CREATE_COMPLETE"
        if not self.deploys:
            self.why = self._reason(cloud, "CREATE_FAILED")

    def _feed(self, cloud: Cloud) -> None:
        self.why = feed(cloud, self.name, self.flow)
        self.flows = not self.why

    def _destroy(self, cloud: Cloud) -> None:
        try:
            if self.template.parent.name == "templates" and self.deploys:
                self._empty(cloud)
            cloud("cloudformation").delete_stack(StackName=self.name)
            self.destroys = self._status(cloud) in ("", "DELETE_COMPLETE")
            if not self.destroys:
                self.why = self.why or self._reason(cloud, "DELETE_FAILED")
        except Exception as error:  # noqa: BLE001 - as above
            self.why = self.why or f"{type(error).__name__}: {error}"[:300]

    def _empty(self, cloud: Cloud) -> None:
        """Empty the buckets: a raw template does not do it, and a bucket with objects is not deleted, as on AWS."""
        for bucket in cloud.ids(self.name, "AWS::S3::Bucket"):
            object_versions = cloud("s3").list_object_versions(Bucket=bucket)
            for each in [
                *object_versions.get("Versions", []),
                *object_versions.get("DeleteMarkers", []),
            ]:
                cloud("s3").delete_object(
                    Bucket=bucket, Key=each["Key"], VersionId=each["VersionId"]
                )

    def _status(self, cloud: Cloud) -> str:
        """Return the stack's status when no operation is in progress; '' if the stack is deleted."""
        until = time.monotonic() + DEPLOYED_WITHIN_S
        while True:
            try:
                (stack,) = cloud("cloudformation").describe_stacks(StackName=self.name)["Stacks"]
            except cloud("cloudformation").exceptions.ClientError:
                return ""
            if not stack["StackStatus"].endswith("IN_PROGRESS") or time.monotonic() > until:
                return str(stack["StackStatus"])
            time.sleep(0.3)

    def _reason(self, cloud: Cloud, status: str) -> str:
        events = cloud("cloudformation").describe_stack_events(StackName=self.name)["StackEvents"]
        failed = [event for event in events if event["ResourceStatus"] == status]
        shown = failed[-1] if failed else events[0]
        return f"{shown['ResourceType']}: {shown.get('ResourceStatusReason', '')}"[:300]


def _zipped(folder: Path) -> bytes:
    bytes_io = io.BytesIO()
    with zipfile.ZipFile(bytes_io, "w") as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(folder))
    return bytes_io.getvalue()


# --- all of them ------------------------------------------------------------------------------------


def synthesised(folder: Path) -> list[Path]:
    """Install the npm packages, synthesise the app, and return its templates."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        raise SystemExit("scripts.third_party_stacks needs Node.js and npm.")
    if not (HERE / "node_modules").exists():
        subprocess.run(
            [npm, "install", "--legacy-peer-deps", "--no-audit", "--no-fund"], cwd=HERE, check=True
        )
    subprocess.run(
        [node, "app.js", str(folder)],
        cwd=HERE,
        check=True,
        # NodejsFunction finds esbuild there, which bundles its code.
        env={
            **os.environ,
            "PATH": f"{HERE / 'node_modules' / '.bin'}{os.pathsep}{os.environ['PATH']}",
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return sorted(folder.glob("*.template.json"))


def cases(folder: Path, wanted: Sequence[str]) -> list[Case]:
    """Return the chosen cases, all by default; synthesise the app unless its folder exists."""
    flows: dict[str, list[str]] = {}
    for each in (HERE / "flows.json", HERE / "templates/flows.json"):
        flows.update(json.loads(each.read_text()))
    there = sorted(folder.glob("*.template.json"))
    raw = [each for each in sorted((HERE / "templates").iterdir()) if each.stem != "flows"]
    only_raw = wanted and all(
        each.startswith(("doc-", "mix-", "pat-", "sam-", "ssp-")) for each in wanted
    )
    templates = raw if only_raw else [*(there or synthesised(folder)), *raw]
    found: list[Case] = []
    for template in templates:
        name = (
            template.name.removesuffix(".template.json").removesuffix(".yaml").removesuffix(".json")
        )
        if is_wanted(name, wanted) and "nested" not in name:
            found.append(Case(name, template, flows.get(name, [])))
    return found


def is_wanted(name: str, wanted: Sequence[str]) -> bool:
    """Return whether a case is chosen: by its name, by a prefix and `*`, or because no case was named."""
    return not wanted or any(
        name == each or (each.endswith("*") and name.startswith(each[:-1])) for each in wanted
    )


def started(folder: Path, port: int) -> subprocess.Popen[bytes]:
    """Start headrace on a data directory, and wait until it answers."""
    headrace = str(Path(sys.executable).with_name("headrace"))
    folder.parent.mkdir(parents=True, exist_ok=True)
    command = [headrace, "up", "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--data-dir", str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=(folder.parent / "up.log").open("wb"),
        env={**os.environ, "AWS_EC2_METADATA_DISABLED": "true"},
    )
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/_headrace/health", timeout=2):
                return process
        except OSError:
            time.sleep(0.2)
    process.terminate()
    raise SystemExit(f"headrace did not start; see {folder.parent / 'up.log'}")


def main(arguments: Sequence[str]) -> int:
    """Run the cases and print the table."""
    parser = argparse.ArgumentParser(prog="scripts.third_party_stacks", description=__doc__)
    parser.add_argument("cases", nargs="*", help="the cases to run; default: all")
    parser.add_argument("--port", type=int, default=free_port(), help="default: a free port")
    parser.add_argument(
        "--cdk-out", type=Path, help="the synthesised app's folder; reused if it exists"
    )
    parser.add_argument("--results", type=Path, help="write each case's result to this JSON file")
    parser.add_argument("--log", type=Path, help="keep the cloud's log in this file")
    parser.add_argument("--at-a-time", type=int, default=4)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="strangers-") as name:
        folder = Path(name)
        found = cases(options.cdk_out or folder / "cdk.out", options.cases)
        unmade = _unmade(options.cdk_out or folder / "cdk.out")
        process = started(folder / "data", options.port)
        try:
            cloud = Cloud(f"http://127.0.0.1:{options.port}")
            for bucket in (SINK, ASSETS):
                cloud("s3").create_bucket(Bucket=bucket)
            version = "/cdk-bootstrap/hnb659fds/version"
            cloud("ssm").put_parameter(Name=version, Value="30", Type="String")
            for service in (
                "cloudformation",
                "lambda",
                "sqs",
                "sns",
                "kinesis",
                "dynamodb",
                "events",
            ):
                cloud(service)
            with concurrent.futures.ThreadPoolExecutor(options.at_a_time) as pool:
                for case in pool.map(lambda case: (case.run(cloud), case)[1], found):
                    print(line(case), flush=True)
        finally:
            process.terminate()
            process.wait(30)
            if options.log is not None:
                shutil.copy(folder / "up.log", options.log)
    if options.results is not None:
        rows = [*(_row(case) for case in found), *unmade]
        options.results.write_text(json.dumps(rows, indent=1))
    print(summary(found))
    return 0 if all(case.passes for case in found) else 1


def _row(case: Case) -> dict[str, Any]:
    names = ("name", "deploys", "flows", "destroys", "why")
    return {name: getattr(case, name) for name in names}


def _unmade(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of the stacks that the CDK could not synthesise."""
    file = folder / "errors.json"
    errors: dict[str, str] = json.loads(file.read_text()) if file.exists() else {}
    nothing = {"deploys": False, "flows": None, "destroys": False}
    return [
        {"name": name, **nothing, "why": f"the CDK does not synthesise it: {why}"}
        for name, why in errors.items()
    ]


def line(case: Outcome) -> str:
    """Return the row of a case."""
    flows = "-" if case.flows is None else "flows" if case.flows else "DOES NOT FLOW"
    deploys = "deploys" if case.deploys else "DOES NOT DEPLOY"
    destroys = "is destroyed" if case.destroys else "IS NOT DESTROYED"
    return f"{case.name:42} {deploys}, {flows}, {destroys}  {case.why}"


def summary(found: Sequence[Outcome]) -> str:
    """Return the counts in a sentence."""
    return (
        f"{sum(case.passes for case in found)} of {len(found)} cases pass:"
        f" {sum(case.deploys for case in found)} deploy,"
        f" {sum(case.flows is True for case in found)} of"
        f" {sum(bool(case.flow) for case in found)} flow,"
        f" {sum(case.destroys for case in found)} are destroyed."
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
