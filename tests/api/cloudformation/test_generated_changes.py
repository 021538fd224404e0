"""Every property of every resource type is changed in a stack, with a value made from AWS's schema.

For each resource of the examples, one property after the other gets another value, or a value where it has none, and
is then what it was. Each update ends: it succeeds, or is rolled back whole. At the end there is as much as before, and
nothing is left once the stack is deleted.

A seeded sample by default; all with `--nightly`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.services.cloudformation.resources import resource_type
from tests.api.cloudformation.generated import Values, varied
from tests.api.cloudformation.helpers import Lab
from tests.api.cloudformation.test_lifecycles import GROUPS, Life, cases
from tests.support.cloud import InProcessCloud

SAMPLED = 2
SEED = 15
# The examples of which the default suite takes a sample; the services of the others take long to import or to store.
QUICK = {
    "apigatewayv2", "cognito", "events", "functions", "glue", "identity", "iot", "jobs", "logs", "messages",
    "secrets", "stepfunctions", "streams",
}  # fmt: skip
# Not taken back by a template that no longer says them, on AWS either: a function's version stays, and another needs
# another function; the deletion of a bucket's ownership controls leaves none; that of a bus's policy is of all of it.
# Another zone is made for networks here, and for another delegation set: a record that names its zone by name stays in
# the old one, which cannot be deleted then.
LASTING = {
    "AWS::Events::EventBus": {"Policy"},
    "AWS::Route53::HostedZone": {
        "DelegationSetId",
        "HostedZoneFeatures",
        "HostedZoneTags",
        "QueryLoggingConfig",
        "VPCs",
    },
    "AWS::S3::Bucket": {"AccelerateConfiguration", "BucketName", "OwnershipControls"},
}
NOT_CHANGED = {"AWS::Lambda::Version"}
# What is shown in another form than it was given in, and what moto keeps of nobody, new or changed.
UNSEEN = {
    "AWS::Kinesis::Stream/DesiredShardLevelMetrics/",
    "AWS::EC2::Subnet/PrivateDnsNameOptionsOnLaunch/EnableResourceNameDnsAAAARecord",
    "AWS::ApiGateway::RestApi/Version",
    "AWS::CloudFront::Function/FunctionMetadata/FunctionARN",
    "AWS::RDS::DBCluster/AssociatedRoles/",
    "AWS::RDS::DBInstance/AssociatedRoles/",
    "AWS::RDS::DBInstance/DBSecurityGroups/",
    "AWS::Redshift::Cluster/AvailabilityZone",
    "AWS::Redshift::Cluster/ClusterSecurityGroups/",
    "AWS::Redshift::Cluster/Endpoint/Address",
    "AWS::Redshift::Cluster/IamRoles/",
    "AWS::RedshiftServerless::Workgroup/Workgroup/BaseCapacity",
    "AWS::SageMaker::Model/EnableNetworkIsolation",
    # Shown with a key only, on AWS too.
    "AWS::SQS::Queue/KmsDataKeyReusePeriodSeconds",
    # Of a standard topic: AWS has no such attribute for it, and what it says then is not known.
    "AWS::SNS::Topic/ContentBasedDeduplication",
}


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with pytest.MonkeyPatch.context() as patch:
        Lab().install(patch)
        with InProcessCloud(tmp_path_factory.mktemp("lives") / "data", spark="installed") as cloud:
            yield cloud


def changes(resource: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (what changes, the resource's properties then)."""
    given = resource["Properties"]
    values = Values(resource["Type"])
    kind = resource_type(resource["Type"])
    assert kind is not None
    if resource["Type"] in NOT_CHANGED:
        return
    for name in values.names:
        if name in LASTING.get(resource["Type"], ()):
            continue
        # A name that changes is a replacement: test_lifecycles.py.
        value = varied(given[name]) if name in given else values.of(name)
        if value is not None and not (name in given and kind.replaces(name)):
            yield name, {**given, name: value}
        if name in given:
            yield f"{name} taken away", {k: v for k, v in given.items() if k != name}


def change_all(life: Life, name: str) -> list[str]:
    """Make every change of a resource, and then back; return what was wrong."""
    wrong: list[str] = []
    resource = life.resources[name]
    for what, properties in changes(resource):
        changed = {**life.resources, name: {**resource, "Properties": properties}}
        for resources in (changed, life.resources):
            try:
                ended = life.update(resources)
            except ClientError as error:
                if "No updates are to be performed" in str(error):
                    continue
                # A required property that others refer to, say: the template itself is refused.
                ended = "refused" if resources is changed else str(error)
            good = ("UPDATE_COMPLETE",)
            if resources is changed:
                good = (*good, "UPDATE_ROLLBACK_COMPLETE", "refused")
            if ended == "UPDATE_COMPLETE":
                wrong += [f"{name}.{what}: {each}" for each in without_effect(life, name)]
            if ended not in good:
                back = "" if resources is changed else ", and back"
                wrong.append(f"{name}.{what}{back}: {ended} {life.reasons('base')[:2]}")
            if ended == "UPDATE_ROLLBACK_FAILED":
                stuck = [
                    each["LogicalResourceId"]
                    for each in life.cfn.describe_stack_resources(StackName="base")[
                        "StackResources"
                    ]
                    if each["ResourceStatus"] == "UPDATE_FAILED"
                ]
                life.cfn.continue_update_rollback(StackName="base", ResourcesToSkip=stuck)
                life.ended("base")
    return wrong


def without_effect(life: Life, name: str) -> list[str]:
    """Return what the service does not show of a resource's properties, as detecting its drift reads them."""
    try:
        found = life.cfn.detect_stack_resource_drift(StackName="base", LogicalResourceId=name)
    except ClientError as error:
        if "Drift detection is not supported" not in str(error):
            raise
        return []
    differences = found["StackResourceDrift"].get("PropertyDifferences", [])
    kind = life.resources[name]["Type"]
    levels = resource_type(kind).properties  # type: ignore[union-attr]
    paths = [each["PropertyPath"] for each in differences]
    # What says that it is ignored has none.
    paths = [path for path in paths if levels.get(path.split("/")[1]) != "ignored"]
    return [f"{p} has no effect" for p in paths if f"{kind}{p.rstrip('0123456789')}" not in UNSEEN]


def live(cloud: InProcessCloud, group: str, names: list[str]) -> None:
    life = Life(cloud, GROUPS[group]["resources"])
    # Where tags are looked for: moto has it from now on.
    cloud.client("resourcegroupstaggingapi", account=life.account).get_resources()
    assert life.create(life.resources) == "CREATE_COMPLETE", life.reasons("base")
    assert life.delete("base") == "DELETE_COMPLETE"
    empty = life.picture()
    assert life.create(life.resources) == "CREATE_COMPLETE", life.reasons("base")
    wrong: list[str] = []
    for name in names:
        before = life.picture()
        wrong += change_all(life, name)
        try:
            life.check_as_much(before, f"{name} changed and back")
        except AssertionError as error:
            wrong.append(str(error))
    stack_id = life.stack("base").stack_id
    ended = life.delete("base")
    if ended != "DELETE_COMPLETE":
        wrong.append(f"the deletion: {ended} {life.reasons(stack_id)[:3]}")
    try:
        life.check_same(empty, "deleted")
    except AssertionError as error:
        wrong.append(str(error))
    assert not wrong, "\n".join(wrong)


def chosen() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    quick = [(group, name) for group, name in cases() if group in QUICK]
    for group, name in random.Random(SEED).sample(quick, SAMPLED):
        found.setdefault(group, []).append(name)
    return found


@pytest.mark.parametrize("group", sorted(chosen()))
def test_a_sample_of_changes_is_whole_or_taken_back(lives: InProcessCloud, group: str):
    live(lives, group, chosen()[group])


@pytest.mark.slow
@pytest.mark.parametrize("group", sorted(GROUPS))
def test_every_change_is_whole_or_taken_back(lives: InProcessCloud, group: str):
    live(lives, group, list(GROUPS[group]["resources"]))
