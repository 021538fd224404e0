"""Resources whose settings a template gives, changes and no longer has: what their services show after each."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.api.cloudformation.test_declared import delete, outputs, refused
from tests.api.cloudformation.test_stacks import create, physical, template, update
from tests.api.cloudformation.test_updated_in_place import change, of
from tests.support.cloud import InProcessCloud


def body(attributes: tuple[str, ...] = (), **resources: Any) -> dict[str, Any]:
    """Return a template that shows attributes such as `Group.Arn`."""
    shown = {name.replace(".", ""): {"Value": {"Fn::GetAtt": name}} for name in attributes}
    return {**template(**resources), **({"Outputs": shown} if shown else {})}


def own_tags(tags: list[dict[str, str]]) -> dict[str, str]:
    listed = {each.get("Key") or each["TagKey"]: each for each in tags}
    return {
        key: each["Value"] if "Value" in each else each["TagValue"]
        for key, each in listed.items()
        if not key.startswith("aws:")
    }


def test_a_log_group_s_settings_come_and_go(cloud: InProcessCloud, cfn: Any):
    logs = cloud.client("logs")
    key = cloud.client("kms").create_key()["KeyMetadata"]["Arn"]

    def group(**settings: Any) -> dict[str, Any]:
        line = of("Logs::LogStream", LogGroupName={"Ref": "Group"})
        return {"Group": of("Logs::LogGroup", **settings), "Line": line}

    whole = {"RetentionInDays": "7", "KmsKeyId": key, "Tags": [{"Key": "k", "Value": "1"}]}
    assert create(cfn, body(("Group.Arn",), **group(**whole))) == "CREATE_COMPLETE"
    name = physical(cfn, "Group")
    assert re.fullmatch(r"s-Group-[A-Z0-9]{12}", name)
    arn = f"arn:aws:logs:us-east-1:000000000000:log-group:{name}"
    assert outputs(cfn, "s") == {"GroupArn": f"{arn}:*"}

    def shown() -> tuple[Any, Any, dict[str, str]]:
        (found,) = logs.describe_log_groups(logGroupNamePrefix=name)["logGroups"]
        tags = logs.list_tags_for_resource(resourceArn=arn)["tags"]
        own = {key: value for key, value in tags.items() if not key.startswith("aws:")}
        return found.get("retentionInDays"), found.get("kmsKeyId"), own

    (line,) = logs.describe_log_streams(logGroupName=name)["logStreams"]
    assert line["logStreamName"] == physical(cfn, "Line")
    assert shown() == (7, key, {"k": "1"})
    assert change(cfn, **group()) == "UPDATE_COMPLETE"
    assert shown() == (None, None, {})
    assert change(cfn, **group(**{**whole, "RetentionInDays": 3})) == "UPDATE_COMPLETE"
    assert shown() == (3, key, {"k": "1"})
    assert physical(cfn, "Group") == name
    # What went by other hands is no obstacle.
    logs.delete_log_group(logGroupName=name)
    delete(cfn, "s")


def test_a_parameter_s_value_description_and_tags_follow(cloud: InProcessCloud, cfn: Any):
    ssm = cloud.client("ssm")

    def parameter(**settings: Any) -> dict[str, Any]:
        return {"P": of("SSM::Parameter", Type="String", **settings)}

    first = parameter(Value=1, Description="d", AllowedPattern=r"\d", Tags={"k": "1", "old": "o"})
    assert create(cfn, body(("P.Value", "P.Type"), **first)) == "CREATE_COMPLETE", refused(cfn, "s")
    name = physical(cfn, "P")
    assert re.fullmatch(r"CFN-P-[A-Za-z0-9]{12}", name)
    assert outputs(cfn, "s") == {"PValue": "1", "PType": "String"}

    def shown() -> tuple[str, str, dict[str, str]]:
        (found,) = ssm.describe_parameters(ParameterFilters=[{"Key": "Name", "Values": [name]}])[
            "Parameters"
        ]
        tags = ssm.list_tags_for_resource(ResourceType="Parameter", ResourceId=name)["TagList"]
        value = ssm.get_parameter(Name=name)["Parameter"]["Value"]
        return value, found.get("Description", ""), own_tags(tags)

    assert shown() == ("1", "d", {"k": "1", "old": "o"})
    later = parameter(Value="2", AllowedPattern=r"\d", Tags={"k": "2"})
    assert update(cfn, body(("P.Value",), **later)) == "UPDATE_COMPLETE"
    assert outputs(cfn, "s") == {"PValue": "2"}
    assert shown() == ("2", "", {"k": "2"})
    assert change(cfn, **parameter(Value="x", AllowedPattern=r"\d")) == "UPDATE_ROLLBACK_COMPLETE"
    assert shown() == ("2", "", {"k": "2"})
    assert physical(cfn, "P") == name
    ssm.delete_parameter(Name=name)
    delete(cfn, "s")


ALARM = {
    "ComparisonOperator": "GreaterThanThreshold", "EvaluationPeriods": "2", "MetricName": "m", "Namespace": "n",
    "Period": "60", "Statistic": "Sum", "Threshold": "1.5",
}  # fmt: skip


def test_an_alarm_s_settings_are_those_of_its_template_alone(cloud: InProcessCloud, cfn: Any):
    watch = cloud.client("cloudwatch")

    def alarm(**settings: Any) -> dict[str, Any]:
        return {"A": of("CloudWatch::Alarm", **ALARM, **settings)}

    topic = "arn:aws:sns:us-east-1:000000000000:t"
    more = {"AlarmDescription": "d", "ActionsEnabled": "false", "AlarmActions": [topic]}
    tagged = {"Tags": [{"Key": "k", "Value": "1"}], "Dimensions": [{"Name": "S", "Value": "s"}]}
    assert create(cfn, body(("A.Arn",), **alarm(**more, **tagged))) == "CREATE_COMPLETE"
    name = physical(cfn, "A")
    arn = f"arn:aws:cloudwatch:us-east-1:000000000000:alarm:{name}"
    assert outputs(cfn, "s") == {"AArn": arn}

    def shown() -> dict[str, Any]:
        (found,) = watch.describe_alarms(AlarmNames=[name])["MetricAlarms"]
        tags = watch.list_tags_for_resource(ResourceARN=arn)["Tags"]
        members = ("EvaluationPeriods", "Threshold", "ActionsEnabled", "AlarmActions", "Dimensions")
        found_members = {member: found.get(member) for member in members}
        return {**found_members, "d": found.get("AlarmDescription") or "", "tags": own_tags(tags)}

    whole = {
        "EvaluationPeriods": 2,
        "Threshold": 1.5,
        "ActionsEnabled": False,
        "AlarmActions": [topic],
    }
    dimensions = [{"Name": "S", "Value": "s"}]
    assert shown() == {**whole, "Dimensions": dimensions, "d": "d", "tags": {"k": "1"}}
    assert change(cfn, **alarm()) == "UPDATE_COMPLETE"
    bare = {
        **whole,
        "ActionsEnabled": True,
        "AlarmActions": [],
        "Dimensions": [],
        "d": "",
        "tags": {},
    }
    assert shown() == bare
    assert physical(cfn, "A") == name
    watch.delete_alarms(AlarmNames=[name])
    delete(cfn, "s")
    refusal = create(cfn, template(**alarm(EvaluationInterval=10)))
    assert refusal == "ROLLBACK_COMPLETE"
    assert "headrace does not support the property EvaluationInterval" in refused(cfn, "s")[-1]


def test_a_security_configuration_is_replaced_and_may_be_gone(cloud: InProcessCloud, cfn: Any):
    emr = cloud.client("emr")

    def configuration(encrypted: bool) -> dict[str, Any]:
        settings = {"EncryptionConfiguration": {"EnableInTransitEncryption": encrypted}}
        return {"C": of("EMR::SecurityConfiguration", SecurityConfiguration=settings)}

    assert create(cfn, template(**configuration(False))) == "CREATE_COMPLETE"
    first = physical(cfn, "C")
    shown = emr.describe_security_configuration(Name=first)["SecurityConfiguration"]
    assert json.loads(shown)["EncryptionConfiguration"] == {"EnableInTransitEncryption": False}
    assert change(cfn, **configuration(True)) == "UPDATE_COMPLETE", refused(cfn, "s")
    second = physical(cfn, "C")
    listed = emr.list_security_configurations()["SecurityConfigurations"]
    assert (first != second, [each["Name"] for each in listed]) == (True, [second])
    emr.delete_security_configuration(Name=second)
    delete(cfn, "s")
