"""Deploys a project for a test: a CDK app's folder, its synthesised `cdk.out`, a SAM template, a plain template.

It runs a CDK app as the CDK CLI does, without the CLI, and uploads the assets to the places that its templates name.
"""
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import yaml

from headrace.core.cdk_apps import AppFailed, synthesise
from headrace.testing.access import CloudAccess
from headrace.testing.code import zip_folder

_ASSETS = "headrace-test-assets-{account}-{region}"
_DEPLOYED_WITHIN_S = 600.0
_LOOK_EVERY_S = 0.05
_CAPABILITIES = ["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"]
# The properties that name a local folder or file of code, by resource type.
_CODE = {
    "AWS::Serverless::Function": "CodeUri",
    "AWS::Serverless::LayerVersion": "ContentUri",
    "AWS::Lambda::Function": "Code",
    "AWS::Lambda::LayerVersion": "Content",
}


class StackFailed(Exception):
    """A stack could not be deployed; the text is one sentence, followed by the stack's events."""


@dataclass(frozen=True, slots=True)
class DeployedStacks:
    """The deployed stacks.

    Attributes:
        cloud: access to the cloud, with the stacks' account.
        outputs: the outputs of all stacks, by name.
        resources: the physical ids, by logical id.
    """

    cloud: CloudAccess
    stacks: list[str]
    outputs: dict[str, str] = field(default_factory=dict[str, str])
    resources: dict[str, str] = field(default_factory=dict[str, str])


def deploy(
    cloud: CloudAccess,
    source: Path | str | Mapping[str, Any],
    *,
    name: str = "",
    parameters: Mapping[str, str] | None = None,
    context: Mapping[str, str] | None = None,
) -> DeployedStacks:
    """Deploy a CDK app's folder (with cdk.json), a cdk.out, or a template (its file or its text).

    Args:
        cloud: the cloud to deploy to.
        source: what to deploy.
        name: the stack's name for a template; the default is the template's file name.
        parameters: a template's parameters.
        context: a CDK app's context values.

    Raises StackFailed.
    """
    if isinstance(source, Mapping):
        return _deploy_templates(cloud, [(name or "stack", dict(source), Path.cwd())], parameters)
    path = Path(source).resolve()
    if (path / "manifest.json").is_file():
        return _deploy_assembly(cloud, path)
    if (path / "cdk.json").is_file():
        with tempfile.TemporaryDirectory(prefix="headrace-cdk-") as out:
            try:
                synthesise(
                    path,
                    Path(out),
                    account=cloud.account,
                    region=cloud.region,
                    context=context or {},
                )
            except AppFailed as failed:
                raise StackFailed(
                    "\n".join(filter(None, [f"{failed}.", failed.output]))
                ) from failed
            return _deploy_assembly(cloud, Path(out))
    if path.is_dir():
        templates = [path / file for file in _TEMPLATES if (path / file).is_file()]
        if not templates:
            raise StackFailed(
                f"{path} has nothing to deploy: no cdk.json, no manifest.json, no {' or '.join(_TEMPLATES)}."
            )
        path = templates[0]
    if not path.is_file():
        raise StackFailed(f"There is no {path} to deploy.")
    template = read_template(path)
    return _deploy_templates(cloud, [(name or path.stem, template, path.parent)], parameters)


_TEMPLATES = ("template.yaml", "template.yml", "template.json")


# --- templates ----------------------------------------------------------------------------------


class _Loader(yaml.SafeLoader):
    """Reads YAML with CloudFormation's short forms, such as !Ref."""


def _short_form(loader: _Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        assert isinstance(node, yaml.MappingNode)
        value = loader.construct_mapping(node, deep=True)
    if suffix == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": value}


cast("Any", _Loader).add_multi_constructor("!", _short_form)
_Loader.yaml_implicit_resolvers = {
    # A date stays text: "2010-09-09" is AWSTemplateFormatVersion's only value.
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_template(path: Path) -> dict[str, Any]:
    """Return a template, JSON or YAML. Raises StackFailed."""
    try:
        document: Any = yaml.load(path.read_text(), Loader=_Loader)
    except yaml.YAMLError as error:
        raise StackFailed(f"{path} is not a template: {error}") from error
    if not isinstance(document, dict) or "Resources" not in document:
        raise StackFailed(f"{path} is not a template: it has no Resources.")
    return cast("dict[str, Any]", document)


def _deploy_templates(
    cloud: CloudAccess,
    templates: list[tuple[str, dict[str, Any], Path]],
    parameters: Mapping[str, str] | None,
) -> DeployedStacks:
    done = DeployedStacks(cloud, [])
    for name, template, folder in templates:
        template = _with_code(cloud, template, folder)
        _deploy_one(cloud, name, template, parameters or {}, done)
    return done


def _with_code(cloud: CloudAccess, template: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Upload the code folders that a template names, and return the template with their S3 locations."""
    resources: dict[str, Any] = {}
    for logical_id, resource in template["Resources"].items():
        member = _CODE.get(resource.get("Type", ""), "")
        code = resource.get("Properties", {}).get(member)
        if isinstance(code, str) and "://" not in code:
            path_of_code = folder / code
            if not path_of_code.exists():
                raise StackFailed(
                    f"{logical_id} has its code in {path_of_code}, which is not there."
                )
            body = zip_folder(path_of_code) if path_of_code.is_dir() else path_of_code.read_bytes()
            bucket, key = _upload(cloud, body)
            serverless = resource["Type"].startswith("AWS::Serverless")
            names = ("Bucket", "Key") if serverless else ("S3Bucket", "S3Key")
            where = dict(zip(names, (bucket, key), strict=True))
            resource = {**resource, "Properties": {**resource["Properties"], member: where}}
        resources[logical_id] = resource
    return {**template, "Resources": resources}


def _upload(cloud: CloudAccess, body: bytes) -> tuple[str, str]:
    bucket = _ASSETS.format(account=cloud.account, region=cloud.region)
    _make_bucket(cloud, bucket)
    key = f"{hashlib.sha256(body).hexdigest()}.zip"
    cloud.client("s3").put_object(Bucket=bucket, Key=key, Body=body)
    return bucket, key


def _make_bucket(cloud: CloudAccess, bucket: str) -> None:
    s3 = cloud.client("s3")
    try:
        s3.head_bucket(Bucket=bucket)
    except s3.exceptions.ClientError:
        where = {"LocationConstraint": cloud.region}
        more = {} if cloud.region == "us-east-1" else {"CreateBucketConfiguration": where}
        s3.create_bucket(Bucket=bucket, **more)


def _deploy_one(
    cloud: CloudAccess,
    name: str,
    template: dict[str, Any],
    parameters: Mapping[str, str],
    done: DeployedStacks,
) -> None:
    stacks = cloud.client("cloudformation")
    request = {
        "StackName": name,
        "TemplateBody": json.dumps(template),
        "Parameters": [
            {"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()
        ],
        "Capabilities": _CAPABILITIES,
    }
    try:
        if "Transform" in template:
            _by_change_set(stacks, request)
        else:
            stacks.create_stack(**request)
    except stacks.exceptions.ClientError as error:
        raise StackFailed(f"Stack {name} was refused: {error}") from error
    stack = _wait_for_end(stacks, name)
    done.stacks.append(name)
    for output in stack.get("Outputs", ()):
        done.outputs[output["OutputKey"]] = output["OutputValue"]
    pages = stacks.get_paginator("list_stack_resources").paginate(StackName=name)
    for page in pages:
        for one in page["StackResourceSummaries"]:
            done.resources[one["LogicalResourceId"]] = one.get("PhysicalResourceId", "")


def _by_change_set(stacks: Any, request: dict[str, Any]) -> None:
    """Create a stack by a change set; a template with transforms needs one."""
    names = {"StackName": request["StackName"], "ChangeSetName": "headrace-test"}
    stacks.create_change_set(**request, ChangeSetName="headrace-test", ChangeSetType="CREATE")
    deadline_s = time.monotonic() + _DEPLOYED_WITHIN_S
    while (change_set := stacks.describe_change_set(**names))["Status"] in (
        "CREATE_PENDING",
        "CREATE_IN_PROGRESS",
    ):
        _pause(deadline_s, names["StackName"])
    if change_set["Status"] != "CREATE_COMPLETE":
        raise StackFailed(
            f"Stack {names['StackName']} was refused: {change_set.get('StatusReason')}"
        )
    stacks.execute_change_set(**names)


def _wait_for_end(stacks: Any, name: str) -> dict[str, Any]:
    """Wait until a stack operation ends, and return the stack. Raises StackFailed with the stack's events."""
    deadline_s = time.monotonic() + _DEPLOYED_WITHIN_S
    while True:
        stack = stacks.describe_stacks(StackName=name)["Stacks"][0]
        status = stack["StackStatus"]
        if status == "CREATE_COMPLETE":
            return stack
        if not status.endswith("_IN_PROGRESS"):
            break
        _pause(deadline_s, name)
    events = stacks.describe_stack_events(StackName=name)["StackEvents"]
    lines = [
        f"  {one['ResourceStatus']:<20} {one['LogicalResourceId']}: {one.get('ResourceStatusReason', '')}"
        for one in reversed(events)
    ]
    raise StackFailed("\n".join([f"Stack {name} ended as {status}; its events:", *lines]))


def _pause(deadline_s: float, name: str) -> None:
    if time.monotonic() > deadline_s:
        raise StackFailed(f"Stack {name} was not done after {_DEPLOYED_WITHIN_S:.0f} s.")
    time.sleep(_LOOK_EVERY_S)


# --- CDK apps -----------------------------------------------------------------------------------


def _deploy_assembly(cloud: CloudAccess, out: Path) -> DeployedStacks:
    """Upload a cloud assembly's assets and deploy its stacks, each after its dependencies."""
    artifacts: dict[str, Any] = json.loads((out / "manifest.json").read_text())["artifacts"]
    _bootstrap(cloud)
    for artifact in artifacts.values():
        if artifact["type"] == "cdk:asset-manifest":
            _upload_assets(cloud, out, out / artifact["properties"]["file"])
    stacks = {k: one for k, one in artifacts.items() if one["type"] == "aws:cloudformation:stack"}
    done = DeployedStacks(cloud, [])
    for artifact_id in _in_order(stacks):
        artifact = stacks[artifact_id]
        properties = artifact["properties"]
        template = json.loads((out / properties["templateFile"]).read_text())
        name = properties.get("stackName", artifact_id)
        _deploy_one(cloud, name, template, properties.get("parameters", {}), done)
    return done


def _in_order(stacks: Mapping[str, Any]) -> list[str]:
    """Return the stacks' ids, each after its dependencies."""
    ordered: list[str] = []

    def visit(artifact_id: str) -> None:
        if artifact_id in ordered or artifact_id not in stacks:
            return
        for other in stacks[artifact_id].get("dependencies", ()):
            visit(other)
        ordered.append(artifact_id)

    for artifact_id in stacks:
        visit(artifact_id)
    return ordered


def _bootstrap(cloud: CloudAccess) -> None:
    """Put the bootstrap version into SSM, where the CDK's templates look for it."""
    cloud.client("ssm").put_parameter(
        Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String", Overwrite=True
    )


def _upload_assets(cloud: CloudAccess, out: Path, manifest: Path) -> None:
    files: dict[str, Any] = json.loads(manifest.read_text()).get("files", {})
    for asset in files.values():
        path = out / asset["source"]["path"]
        body = zip_folder(path) if asset["source"].get("packaging") == "zip" else path.read_bytes()
        for destination in asset["destinations"].values():
            bucket = _fill_placeholders(cloud, destination["bucketName"])
            _make_bucket(cloud, bucket)
            cloud.client("s3").put_object(
                Bucket=bucket, Key=_fill_placeholders(cloud, destination["objectKey"]), Body=body
            )


def _fill_placeholders(cloud: CloudAccess, text: str) -> str:
    """Return a text with the CDK's placeholders for account and region replaced."""
    return (
        text.replace("${AWS::AccountId}", cloud.account)
        .replace("${AWS::Region}", cloud.region)
        .replace("${AWS::Partition}", "aws")
    )
