"""Change sets that take drift back: they compare a template with what resources are now, and make these what it says.

Documented: drift-aware-change-sets.html and the members of DescribeChangeSet. Not compared with AWS.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.cloudformation.helpers import Lab, thing
from tests.api.cloudformation.test_declared import detect
from tests.api.cloudformation.test_stacks import create, physical, queue, refused, settled
from tests.support.cloud import InProcessCloud


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with pytest.MonkeyPatch.context() as patch:
        Lab().install(patch)
        with InProcessCloud(tmp_path_factory.mktemp("live") / "data") as cloud:
            yield cloud


@pytest.fixture(scope="module")
def cfn(cloud: InProcessCloud) -> Any:
    return cloud.client("cloudformation")


def timeout(cloud: InProcessCloud, url: str, value: int | None = None) -> int:
    """Return a queue's visibility time-out in seconds, after it is set where one is given."""
    sqs = cloud.client("sqs")
    if value is not None:
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": str(value)})
    names = ["VisibilityTimeout"]
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return int(found["VisibilityTimeout"])


def drift_aware(cfn: Any, name: str, resources: dict[str, Any]) -> dict[str, Any]:
    """Make a change set that takes drift back, and return it with property values."""
    cfn.create_change_set(
        StackName=name, ChangeSetName="c", TemplateBody=json.dumps({"Resources": resources}),
        DeploymentMode="REVERT_DRIFT",
    )  # fmt: skip
    found = cfn.describe_change_set(StackName=name, ChangeSetName="c", IncludePropertyValues=True)
    return dict(found)


def execute(cfn: Any, name: str) -> str:
    cfn.execute_change_set(StackName=name, ChangeSetName="c")
    return settled(cfn, name)


def test_what_has_drifted_becomes_what_the_template_says(cloud: InProcessCloud, cfn: Any):
    resources = {
        "Q": queue(VisibilityTimeout=30),
        "Same": queue(VisibilityTimeout=5),
        "Gone": queue("back-again"),
        "Reads": {
            "Type": "AWS::SSM::Parameter",
            "Properties": {"Type": "String", "Value": {"Fn::GetAtt": ["Gone", "Arn"]}},
        },
    }
    create(cfn, {"Resources": resources}, "back")
    url, gone = physical(cfn, "Q", "back"), physical(cfn, "Gone", "back")
    timeout(cloud, url, 99)
    cloud.client("sqs").delete_queue(QueueUrl=gone)

    found = drift_aware(cfn, "back", resources)
    assert (found["Status"], found["DeploymentMode"], found["StackDriftStatus"]) == (
        "CREATE_COMPLETE", "REVERT_DRIFT", "DRIFTED",
    )  # fmt: skip
    changes = {
        c["ResourceChange"]["LogicalResourceId"]: c["ResourceChange"] for c in found["Changes"]
    }
    assert changes["Q"]["ResourceDriftStatus"] == "MODIFIED"
    (detail,) = changes["Q"]["Details"]
    target = detail["Target"]
    assert (target["BeforeValue"], target["BeforeValueFrom"]) == ("99", "ACTUAL_STATE")
    assert (target["AfterValue"], target["AfterValueFrom"]) == ("30", "TEMPLATE")
    assert (target["Drift"]["PreviousValue"], target["Drift"]["ActualValue"]) == ("30", "99")
    assert (changes["Gone"]["Action"], changes["Gone"]["ResourceDriftStatus"]) == ("Add", "DELETED")
    assert "Same" not in changes
    assert timeout(cloud, url) == 99

    assert execute(cfn, "back") == "UPDATE_COMPLETE"
    assert timeout(cloud, url) == 30
    assert physical(cfn, "Q", "back") == url
    assert timeout(cloud, physical(cfn, "Gone", "back")) == 30
    assert detect(cfn, "back")["StackDriftStatus"] == "IN_SYNC"


def test_what_a_template_says_as_it_is_is_only_noted(cloud: InProcessCloud, cfn: Any):
    create(cfn, {"Resources": {"Q": queue(VisibilityTimeout=30)}}, "noted")
    url = physical(cfn, "Q", "noted")
    timeout(cloud, url, 77)
    found = drift_aware(cfn, "noted", {"Q": queue(VisibilityTimeout=77)})
    (change,) = found["Changes"]
    assert change["ResourceChange"]["Action"] == "SyncWithActual"
    assert execute(cfn, "noted") == "UPDATE_COMPLETE"
    assert timeout(cloud, url) == 77
    assert detect(cfn, "noted")["StackDriftStatus"] == "IN_SYNC"


def test_a_failure_leaves_what_was_there_before_drift_and_all(cloud: InProcessCloud, cfn: Any):
    create(cfn, {"Resources": {"Q": queue(VisibilityTimeout=30), "Gone": queue()}}, "kept")
    url, gone = physical(cfn, "Q", "kept"), physical(cfn, "Gone", "kept")
    timeout(cloud, url, 55)
    cloud.client("sqs").delete_queue(QueueUrl=gone)
    queues = cloud.client("sqs").list_queues()["QueueUrls"]
    resources = {
        "Q": queue(VisibilityTimeout=30),
        "Gone": queue(),
        "Fails": {**thing({"create": "told"}), "DependsOn": ["Q", "Gone"]},
    }
    drift_aware(cfn, "kept", resources)
    assert execute(cfn, "kept") == "UPDATE_ROLLBACK_COMPLETE"
    assert timeout(cloud, url) == 55
    assert cloud.client("sqs").list_queues()["QueueUrls"] == queues
    status = detect(cfn, "kept")
    assert (status["StackDriftStatus"], status["DriftedStackResourceCount"]) == ("DRIFTED", 2)


def test_without_drift_and_changes_there_is_nothing_to_do(cfn: Any):
    create(cfn, {"Resources": {"Q": queue()}}, "same")
    found = drift_aware(cfn, "same", {"Q": queue()})
    assert (found["Status"], found["StackDriftStatus"]) == ("FAILED", "IN_SYNC")


def test_an_import_takes_no_drift_back(cfn: Any):
    code, message = refused(
        cfn.create_change_set, StackName="same", ChangeSetName="i", ChangeSetType="IMPORT",
        TemplateBody=json.dumps({"Resources": {"Q": queue()}}), DeploymentMode="REVERT_DRIFT",
        ResourcesToImport=[],
    )  # fmt: skip
    assert (code, "REVERT_DRIFT" in message) == ("ValidationError", True)
