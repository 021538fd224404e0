"""No deployment loses anything without a failure: every resource type through the changes that can take something away.

For each resource of each example: another stack asks for the same one; its logical id changes; a property changes that
makes a new resource; an update of it fails and is rolled back. At the end its stack is deleted and retains everything.
After each, either the operation failed and everything is as it was, or it succeeded and as much is there as before.

A seeded sample by default; all with `--nightly`.
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import json
import random
import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.aws.calls.errors import AwsError
from headrace.services.cloudformation.deployment.resource_states import ResourceStates
from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.resources import TYPES, resource_type
from headrace.services.cloudformation.state import Stack
from headrace.services.cloudformation.template.template import in_order
from tests.api.cloudformation.helpers import Lab, thing
from tests.api.cloudformation.test_declared import APART, EXAMPLES, NAMED, TYPES_DECLARED
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud
from tests.support.cloud_picture import Picture, gained, lost, picture_of
from tests.support.server import wait_until

FOLDER = Path(__file__).parent / "owned"
OWNED = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
# What a second stack takes over, as on AWS, and of which moto keeps traces: ids of associations, revisions, VPCs of
# options. `test_in_place` and `test_declared` have these types.
SHARED = "shared"
GROUPS = {name: one for name, one in {**EXAMPLES, **OWNED}.items() if name != SHARED}
SAMPLED = 3
SEED = 15
# Their services take seconds to import or to store.
SLOW_GROUPS = {
    "analytics", "clusters", "compute", "databases", "edge", "ec2", "operations", "parts", "storage", "web",
}  # fmt: skip
# What services remember of what was: moto a deleted resource's tags, identities and default groups of networks, EMR
# Serverless terminated applications, KMS keys that wait for their deletion, Glue, SSM and Secrets Manager versions,
# Kinesis closed shards, RDS its own snapshots; a user pool's client its own id, once it is changed; EC2 the order of
# launch templates; CloudWatch what was measured meanwhile; API Gateway that a domain had no paths and a plan no keys;
# AppConfig an environment's deployments.
_REMEMBERED = re.compile(
    r"/\.?_?tagg(er|ing_service)|emr_serverless_applications|kms/.*/keys/|/\.?versions/|/_parameters/|version_stages"
    r"|kinesis_streams/.*/shards/|pools_identities|ec2/[^/]*/(groups|network_acls|route_tables|tags)/|num_schema"
    r"|/\.?extended_config|base_path_mappings/[^/]*$|usage_plan_keys/[^/]*$|/rds:|launch_template_insert_order"
    r"|route53/.*(rr_changes|delegation_sets)|servicediscovery/[^/]*/operations/|\.load_balancer_arns|task_definitions/[^/]*$|default-registry"
    r"|environments/[^/]*/\.?deployments/|ec2/[^/]*/reservations/|alarms/TargetTracking-|(DBParameterGroup.>|db_parameter_groups)/default\.|cloudwatch/[^/]*/metric_data/"
)
# What the examples read from S3, in the account's own bucket.
_LAYER = io.BytesIO()
with zipfile.ZipFile(_LAYER, "w") as archive:
    archive.writestr("python/life.py", "")
PARTS = {
    "layer.zip": _LAYER.getvalue(),
    "inner.json": json.dumps(
        {
            "Parameters": {"Delay": {"Type": "String"}},
            "Resources": {
                "Q": {"Type": "AWS::SQS::Queue", "Properties": {"DelaySeconds": {"Ref": "Delay"}}}
            },
        }
    ).encode(),
}
# What is only added: EMR's clusters, groups and steps that were, EC2's deleted endpoints, terminated instances' own,
# AppConfig's deployments, which are history.
_ADDED = re.compile(
    r"environments/[^/]*/deployments/|^database/doc_emr_|vpc_end_points/|/enis/|_resource_tags/[^/]*$"
)
# A cluster's state and times go on by themselves, as do the tasks of a service and the token that an application's
# next change must bring, and the version of a policy; that a cluster which is there ends, is a loss.
_MOMENTARY = re.compile(
    r"doc_emr_clusters/[^/]*/value/(idle_since_ms|reason|ready_ms|ended_ms)"
    r"|ecs/.*(running|pending)_(tasks_)?count|\.conditional_token"
    r"|kafka/[^/]*/policies/.*/current_version$|tables/[^/]*/\.modified_by$|access_policies/.*/policyVersion$"
    r"|managed_policies/.*/\.next_version_num$"
)
_STATE = re.compile(r"doc_emr_clusters/[^/]*/value/state$")
_ENDED = ("TERMINATING", "TERMINATED", "TERMINATED_WITH_ERRORS")
_accounts = itertools.count(100000000001)


class Life:
    """One example's stack, in an account of its own."""

    def __init__(self, cloud: InProcessCloud, resources: dict[str, Any]) -> None:
        self.cloud = cloud
        self.account = str(next(_accounts))
        self.cfn = cloud.client("cloudformation", account=self.account)
        # moto refuses roles of other accounts.
        # What moto has of a service that others look at is there from now on.
        cloud.client("events", account=self.account).list_rules()
        cloud.client("cloudwatch", account=self.account).describe_alarms()
        cloud.client("iam", account=self.account).list_roles()
        cloud.client("kms", account=self.account).list_keys()
        cloud.client("secretsmanager", account=self.account).list_secrets()
        cloud.client("acm", account=self.account).list_certificates()
        cloud.client("autoscaling", account=self.account).describe_auto_scaling_groups()
        text = json.dumps(resources).replace(ACCOUNT, self.account)
        self.resources = json.loads(text)
        if "parts-" in text:
            s3, bucket = cloud.client("s3", account=self.account), f"parts-{self.account}"
            s3.create_bucket(Bucket=bucket)
            for key, part in PARTS.items():
                s3.put_object(Bucket=bucket, Key=key, Body=part)

    def picture(self) -> Picture:
        return picture_of(self.cloud.cloud, self.account)

    def status(self, stack_id: str) -> str:
        return str(self.cfn.describe_stacks(StackName=stack_id)["Stacks"][0]["StackStatus"])

    def ended(self, stack_id: str) -> str:
        wait_until(lambda: not self.status(stack_id).endswith("IN_PROGRESS"), what="the stack")
        return self.status(stack_id)

    def create(self, resources: dict[str, Any], name: str = "base") -> str:
        body = json.dumps({"Resources": resources})
        made = self.cfn.create_stack(StackName=name, TemplateBody=body, **NAMED)
        return self.ended(made["StackId"])

    def update(self, resources: dict[str, Any]) -> str:
        body = json.dumps({"Resources": resources})
        self.cfn.update_stack(StackName="base", TemplateBody=body, **NAMED)
        return self.ended("base")

    def delete(self, name: str) -> str:
        stack_id = self.stack(name).stack_id
        self.cfn.delete_stack(StackName=name)
        return self.ended(stack_id)

    def stack(self, name: str) -> Stack:
        found = self.cloud.cloud.cloudformation.stacks.find(self.account, REGION, name)
        assert found is not None
        return found

    def reasons(self, name: str) -> list[str]:
        events = self.cfn.describe_stack_events(StackName=name)["StackEvents"]
        return [
            f"{e['LogicalResourceId']}: {e.get('ResourceStatusReason')}"
            for e in events
            if e["ResourceStatus"].endswith("FAILED")
        ]

    # --- what is done ---------------------------------------------------------------------------

    def ask_for_the_same(self, name: str) -> None:
        """Have another stack make what is there: it refuses, or makes another one."""
        before = self.picture()
        stored = self.stack("base").resources[name]
        resource = {**self.resources[name], "Properties": stored.properties}
        resource.pop("DependsOn", None)
        ended = self.create({name: resource}, "other")
        if ended == "CREATE_COMPLETE":
            assert self.delete("other") == "DELETE_COMPLETE", self.reasons("other")
        else:
            assert ended == "ROLLBACK_COMPLETE", self.reasons("other")
            self.delete("other")
        self.check_same(before, f"another stack with {name} ended in {ended}")

    def rename(self, name: str) -> None:
        """Give a resource another logical id, and back."""
        new = f"{name}Renamed"
        renamed = json.loads(
            re.sub(rf'"{name}(?=["])', f'"{new}', json.dumps(self.resources))
            .replace(f"${{{name}}}", f"${{{new}}}")
            .replace(f"${{{name}.", f"${{{new}.")
        )
        self._change(renamed, f"{name} renamed")

    def replace(self, name: str) -> None:
        """Change each property that makes a new resource, alone and then back."""
        resource = self.resources[name]
        kind = resource_type(resource["Type"])
        assert kind is not None
        for prop, value in resource["Properties"].items():
            other = another(value)
            if kind.replaces(prop) and other is not None:
                changed = {**resource, "Properties": {**resource["Properties"], prop: other}}
                self._change({**self.resources, name: changed}, f"{name}.{prop} replaced")

    def fail_an_update(self, name: str, change: dict[str, Any]) -> None:
        """Change a resource in an update that fails after it."""
        resource = self.resources[name]
        changes = [change] if change else []
        kind = resource_type(resource["Type"])
        assert kind is not None
        for prop, value in resource["Properties"].items():
            other = another(value)
            if kind.replaces(prop) and other is not None:
                changes.append({prop: other})
        for each in changes:
            before = self.picture()
            changed = {**resource, "Properties": {**resource["Properties"], **each}}
            body = {
                **self.resources,
                name: changed,
                "Fails": thing({"create": "told"}, depends_on=name),
            }
            assert self.update(body) == "UPDATE_ROLLBACK_COMPLETE", self.reasons("base")
            self.check_same(before, f"{name} with {each} rolled back")

    def retain(self) -> None:
        """Delete the stack and retain everything."""
        kept = {
            name: {**resource, "DeletionPolicy": "Retain"}
            for name, resource in self.resources.items()
        }
        assert self.update(kept) == "UPDATE_COMPLETE"
        before = self.picture()
        assert self.delete("base") == "DELETE_COMPLETE"
        self.check_same(before, "deleted with Retain")

    def delete_twice(self, stack: Stack) -> None:
        """Delete what was retained, each twice: as after a kill between a deletion and its note."""
        cloudformation = self.cloud.cloud.cloudformation
        states = ResourceStates(cloudformation.stacks, cloudformation.operations.ports, stack)
        depends_on = {name: set(resource.depends_on) for name, resource in stack.resources.items()}
        found: list[str] = []
        for name in reversed(in_order(depends_on)):
            resource = stack.resources[name]
            kind = resource_type(resource.type)
            assert kind is not None
            for time in ("first", "second"):
                try:
                    kind.delete(states.context(resource), resource.physical_id, resource.properties)
                except (AwsError, ResourceFailed) as error:
                    found.append(f"{name} ({resource.type}), {time}: {error}")
        assert not found, found

    def put_right(self) -> None:
        """Bring the stack back to what it was, after a check that failed."""
        with contextlib.suppress(ClientError):
            self.update(self.resources)

    def _change(self, resources: dict[str, Any], what: str) -> None:
        before = self.picture()
        ended = self.update(resources)
        if ended == "UPDATE_ROLLBACK_COMPLETE":
            self.check_same(before, f"{what}, rolled back")
            return
        assert ended == "UPDATE_COMPLETE", (what, self.reasons("base"))
        self.check_as_much(before, what)
        before = self.picture()
        ended = self.update(self.resources)
        assert ended in ("UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE"), self.reasons("base")
        assert ended == "UPDATE_COMPLETE", (what, "and back", self.reasons("base"))
        self.check_as_much(before, f"{what}, and back")

    def check_same(self, before: Picture, what: str) -> None:
        after = self.picture()
        gone, new = lost(before, after), gained(before, after)
        gone = {
            path: values
            for path, values in gone.items()
            if not (_REMEMBERED.search(path) or _goes_on(path, *values))
        }
        assert not gone, (what, dict(itertools.islice(gone.items(), 12)))
        new = {
            path: value
            for path, value in new.items()
            if not (_REMEMBERED.search(path) or _ADDED.search(path))
        }
        assert not new, (what, dict(itertools.islice(new.items(), 12)))

    def check_as_much(self, before: Picture, what: str) -> None:
        """Physical ids are others now: count what there is of each kind."""
        gone = shapes(before) - shapes(self.picture())
        assert not gone, (what, dict(itertools.islice(gone.items(), 12)), self.reasons("base")[:1])


def _goes_on(path: str, before: Any, after: Any) -> bool:
    if _STATE.search(path):
        return before in _ENDED or after not in _ENDED
    return bool(_MOMENTARY.search(path))


def another(value: Any) -> Any:
    """Return another value of the same form, or None for a form of which there is none that is surely right."""
    if isinstance(value, str) and value and not value.startswith(("arn:", "{", "s3:")):
        return value + "2" if value[-1].isalnum() else None
    return None


def shapes(picture: Picture) -> Counter[str]:
    """Return how many things of each form there are; the parts of paths that name one thing are left out."""
    return Counter(_form(path) for path in picture if not _REMEMBERED.search(path))


def _form(path: str) -> str:
    # Attributes have a dot before them; services with their regions, and tables, are at the beginning.
    kept = 2 if path.startswith("database/") else 3
    parts = path.split("/")
    return "/".join(
        part if part.startswith(".") or at < kept else "*" for at, part in enumerate(parts)
    )


def cases() -> list[tuple[str, str]]:
    return [(group, name) for group, example in GROUPS.items() for name in example["resources"]]


def chosen() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    quick = [(group, name) for group, name in cases() if group not in SLOW_GROUPS]
    for group, name in random.Random(SEED).sample(quick, SAMPLED):
        found.setdefault(group, []).append(name)
    return found


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with pytest.MonkeyPatch.context() as patch:
        Lab().install(patch)
        with InProcessCloud(tmp_path_factory.mktemp("lives") / "data", spark="installed") as cloud:
            yield cloud


def live(cloud: InProcessCloud, group: str, names: list[str]) -> None:
    example = GROUPS[group]
    life = Life(cloud, example["resources"])
    assert life.create(life.resources) == "CREATE_COMPLETE", life.reasons("base")
    found: list[str] = []
    for name in names:
        change = example["change"].get(name, {})
        for step in (
            functools.partial(life.ask_for_the_same, name),
            functools.partial(life.fail_an_update, name, change),
            functools.partial(life.rename, name),
            functools.partial(life.replace, name),
        ):
            try:
                step()
            except AssertionError as error:
                found.append(str(error))
                life.put_right()
    stack = life.stack("base")
    for step in (life.retain, functools.partial(life.delete_twice, stack)):
        try:
            step()
        except AssertionError as error:
            found.append(str(error))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("group", sorted(chosen()))
def test_a_sample_of_types_loses_nothing(lives: InProcessCloud, group: str):
    live(lives, group, chosen()[group])


@pytest.mark.slow
@pytest.mark.parametrize("group", sorted(GROUPS))
def test_no_type_loses_anything(lives: InProcessCloud, group: str):
    live(lives, group, list(GROUPS[group]["resources"]))


def test_every_type_is_among_the_examples():
    examples = [*GROUPS.values(), EXAMPLES[SHARED]]
    shown = {r["Type"] for example in examples for r in example["resources"].values()}
    assert TYPES_DECLARED - shown <= APART
    assert {kind for kind in TYPES if kind.startswith("AWS::")} <= shown
