"""Step Functions' aliases (sentences recorded: LocalStack's test_sfn_api_aliasing.snapshot.json, of AWS)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.moto_lab import ACCOUNT, MotoLab

ROLE = "arn:aws:iam::000000000000:role/r"
DEFINITION = json.dumps({"StartAt": "P", "States": {"P": {"Type": "Pass", "End": True}}})


def version(lab: MotoLab, machine: str) -> str:
    client = lab.client("stepfunctions")
    client.create_state_machine(name=machine, roleArn=ROLE, definition=DEFINITION)
    arn = f"arn:aws:states:us-east-1:{ACCOUNT}:stateMachine:{machine}"
    return str(client.publish_state_machine_version(stateMachineArn=arn)["stateMachineVersionArn"])


def routes(*leads: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"stateMachineVersionArn": arn, "weight": weight} for arn, weight in leads]


def refused(call: Any, **params: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**params)
    error: Any = caught.value.response.get("Error")
    return error["Code"], error["Message"]


def test_an_alias_stays_with_the_versions_of_its_own_machine(lab: MotoLab):
    client, first, other = lab.client("stepfunctions"), version(lab, "a"), version(lab, "b")
    alias = client.create_state_machine_alias(
        name="live", routingConfiguration=routes((first, 100))
    )
    named = {"stateMachineAliasArn": alias["stateMachineAliasArn"]}
    update = client.update_state_machine_alias
    code, _ = refused(update, **named, routingConfiguration=routes((other, 100)))
    assert code == "ValidationException"
    code, _ = refused(update, **named, routingConfiguration=routes((f"{first}9", 100)))
    assert code == "ResourceNotFound"
    code, _ = refused(
        client.create_state_machine_alias,
        name="both",
        routingConfiguration=routes((first, 50), (other, 50)),
    )
    assert code == "ValidationException"
    found = client.describe_state_machine_alias(**named)
    assert found["routingConfiguration"] == routes((first, 100))


def test_an_alias_is_not_made_over_by_another_of_its_name(lab: MotoLab):
    client, first = lab.client("stepfunctions"), version(lab, "a")
    create = client.create_state_machine_alias
    params: dict[str, Any] = {"name": "live", "routingConfiguration": routes((first, 100))}
    made = create(**params)
    assert create(**params)["stateMachineAliasArn"] == made["stateMachineAliasArn"]
    code, message = refused(create, **params, description="another")
    assert code == "ConflictException"
    assert message == (
        "Failed to create alias because an alias with the same name and a different routing"
        " configuration already exists."
    )


def test_routes_that_aws_refuses_are_refused(lab: MotoLab):
    create, first = lab.client("stepfunctions").create_state_machine_alias, version(lab, "a")
    machine = first.rpartition(":")[0]

    def sentence(*leads: tuple[str, int]) -> str:
        code, message = refused(create, name="live", routingConfiguration=routes(*leads))
        assert code == "ValidationException"
        return message

    assert sentence((machine, 100)) == (
        f"Routing configuration must contain state machine version ARNs. Received: [{machine}]"
    )
    assert sentence((first, 50), (first, 50)) == (
        "Routing configuration must contain distinct state machine version ARNs. Received:"
        f" [{first}, {first}]"
    )
    assert sentence((first, 70), (f"{machine}:2", 29)) == (
        "Sum of routing configuration weights must equal 100. Received: [70, 29]"
    )
    assert "Member must have length less than or equal to 2" in sentence(
        (first, 50), (f"{machine}:2", 30), (f"{machine}:3", 20)
    )


def test_executions_are_listed_by_the_version_or_the_alias_that_began_them(lab: MotoLab):
    client, first = lab.client("stepfunctions"), version(lab, "a")
    machine = first.rpartition(":")[0]
    alias = client.create_state_machine_alias(
        name="live", routingConfiguration=routes((first, 100))
    )["stateMachineAliasArn"]
    for arn in (machine, first, alias):
        client.start_execution(stateMachineArn=arn, name=arn.rpartition(":")[2])

    def listed(arn: str, **more: Any) -> list[str]:
        rows = client.list_executions(stateMachineArn=arn, **more)["executions"]
        return [row["name"] for row in rows]

    assert listed(alias) == ["live"]
    assert listed(first) == ["live", "1"]
    assert listed(machine) == ["live", "1", "a"]
    assert listed(machine, maxResults=1) == ["live"]
    assert listed(machine, statusFilter="ABORTED") == []
    for gone in (f"{machine}:other", f"{machine}:2", f"{machine}x"):
        code, _ = refused(client.list_executions, stateMachineArn=gone)
        assert code == "StateMachineDoesNotExist"


def test_what_a_version_does_not_have_is_refused(lab: MotoLab):
    client, first = lab.client("stepfunctions"), version(lab, "a")
    for call in (client.list_state_machine_versions, client.publish_state_machine_version):
        code, _ = refused(call, stateMachineArn=first)
        assert code == "StateMachineDoesNotExist"


def test_an_express_machine_runs_by_its_version_or_alias_while_the_caller_waits(lab: MotoLab):
    client = lab.client("stepfunctions")
    published = client.create_state_machine(
        name="x", roleArn=ROLE, definition=DEFINITION, type="EXPRESS", publish=True
    )
    first, machine = published["stateMachineVersionArn"], published["stateMachineArn"]
    client.update_state_machine(
        stateMachineArn=machine, definition=DEFINITION.replace('"End"', '"Result": 2, "End"')
    )
    alias = client.create_state_machine_alias(
        name="live", routingConfiguration=routes((first, 100))
    )["stateMachineAliasArn"]
    outputs: list[str] = []
    for arn in (machine, first, alias):
        answer = client.start_sync_execution(stateMachineArn=arn, input="1")
        assert answer["inputDetails"] == answer["outputDetails"] == {"included": True}
        outputs.append(answer["output"])
        assert answer["stateMachineArn"] == machine
    assert outputs == ["2", "1", "1"]
    code, _ = refused(client.start_sync_execution, stateMachineArn=f"{machine}:9")
    assert code == "StateMachineDoesNotExist"
