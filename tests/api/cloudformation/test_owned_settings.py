"""Settings of headrace's own services in stacks: policies, URLs, layers, asynchronous invocation."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

import pytest

from tests.api.cloudformation.test_declared import NAMED, delete, outputs, refused
from tests.api.cloudformation.test_lifecycles import PARTS
from tests.api.cloudformation.test_settings import body
from tests.api.cloudformation.test_stacks import create, physical, template
from tests.api.cloudformation.test_updated_in_place import change, of
from tests.support.cloud import InProcessCloud
from tests.support.policies import TRUST

BUCKET = "settings"
FUNCTION = {
    "Role": of("IAM::Role", AssumeRolePolicyDocument=TRUST),
    "F": of(
        "Lambda::Function",
        FunctionName="f",
        Runtime="python3.13",
        Handler="index.h",
        Role={"Fn::GetAtt": ["Role", "Arn"]},
        Code={"ZipFile": "def h(e, c): pass"},
    ),
}
ARN = "arn:aws:lambda:us-east-1:000000000000:function:f"


def allow(action: str, resource: Any) -> dict[str, Any]:
    principal = {"AWS": "arn:aws:iam::000000000000:root"}
    statement = {"Sid": "s", "Effect": "Allow", "Principal": principal, "Action": action}
    return {"Version": "2012-10-17", "Statement": [{**statement, "Resource": resource}]}


@pytest.mark.parametrize("kind", ["S3::BucketPolicy", "Kinesis::ResourcePolicy"])
def test_a_policy_follows_its_template_and_goes_with_its_holder(
    cloud: InProcessCloud, cfn: Any, kind: str
):
    s3, kinesis = cloud.client("s3"), cloud.client("kinesis")
    s3.create_bucket(Bucket=BUCKET)
    kinesis.create_stream(StreamName="k", ShardCount=1)
    stream = "arn:aws:kinesis:us-east-1:000000000000:stream/k"
    is_bucket = kind.startswith("S3")
    holder, where = (BUCKET, f"arn:aws:s3:::{BUCKET}/*") if is_bucket else (stream, stream)
    actions = (
        ["s3:GetObject", "s3:PutObject"]
        if is_bucket
        else ["kinesis:GetRecords", "kinesis:PutRecord"]
    )

    def policy(action: str, *, as_text: bool = False) -> dict[str, Any]:
        document: Any = allow(action, where)
        document = json.dumps(document) if as_text else document
        names = ("Bucket", "PolicyDocument") if is_bucket else ("ResourceArn", "ResourcePolicy")
        return {"P": of(kind, **dict(zip(names, (holder, document), strict=True)))}

    def shown() -> Any:
        if not is_bucket:
            return json.loads(kinesis.get_resource_policy(ResourceARN=stream)["Policy"] or "{}")
        with contextlib.suppress(s3.exceptions.from_code("NoSuchBucketPolicy")):
            return json.loads(s3.get_bucket_policy(Bucket=BUCKET)["Policy"])
        return {}

    assert create(cfn, template(**policy(actions[0]))) == "CREATE_COMPLETE", refused(cfn, "s")
    assert (physical(cfn, "P"), shown()) == (holder, allow(actions[0], where))
    assert change(cfn, **policy(actions[1], as_text=is_bucket)) == "UPDATE_COMPLETE", refused(
        cfn, "s"
    )
    assert (physical(cfn, "P"), shown()) == (holder, allow(actions[1], where))
    assert create(cfn, template(**policy(actions[0])), name="other") == "ROLLBACK_COMPLETE"
    assert "already exists" in refused(cfn, "other")[-1]
    assert shown() == allow(actions[1], where)
    delete(cfn, "s")
    assert shown() == {}
    assert create(cfn, template(**policy(actions[0]))) == "CREATE_COMPLETE"
    (s3.delete_bucket(Bucket=BUCKET) if is_bucket else kinesis.delete_stream(StreamName="k"))
    delete(cfn, "s")


def test_a_function_s_url_changes_in_place(cloud: InProcessCloud, cfn: Any):
    client = cloud.client("lambda")

    def resources(**settings: Any) -> dict[str, Any]:
        return {**FUNCTION, "U": of("Lambda::Url", TargetFunctionArn={"Ref": "F"}, **settings)}

    cors = {"AllowCredentials": "true", "AllowOrigins": ["https://a.example"], "MaxAge": "60"}
    first = resources(AuthType="NONE", Cors=cors, InvokeMode="RESPONSE_STREAM")
    assert create(cfn, body(("U.FunctionArn", "U.FunctionUrl"), **first), **NAMED) == (
        "CREATE_COMPLETE"
    )
    assert physical(cfn, "U") == ARN

    def shown() -> dict[str, Any]:
        return client.get_function_url_config(FunctionName="f")

    url = shown()
    assert outputs(cfn, "s") == {"UFunctionArn": ARN, "UFunctionUrl": url["FunctionUrl"]}
    turned = {"AllowCredentials": True, "AllowOrigins": ["https://a.example"], "MaxAge": 60}
    assert (url["AuthType"], url["InvokeMode"], url["Cors"]) == ("NONE", "RESPONSE_STREAM", turned)
    assert change(cfn, **resources(AuthType="AWS_IAM")) == "UPDATE_COMPLETE", refused(cfn, "s")
    after = shown()
    assert (after["AuthType"], after["InvokeMode"]) == ("AWS_IAM", "BUFFERED")
    assert not after.get("Cors")
    assert (physical(cfn, "U"), after["FunctionUrl"]) == (ARN, url["FunctionUrl"])
    second = template(U=of("Lambda::Url", TargetFunctionArn="f", AuthType="NONE"))
    assert create(cfn, second, name="other") == "ROLLBACK_COMPLETE"
    assert shown()["AuthType"] == "AWS_IAM"
    client.delete_function_url_config(FunctionName="f")
    delete(cfn, "s")


def test_asynchronous_settings_are_those_of_their_template(cloud: InProcessCloud, cfn: Any):
    client = cloud.client("lambda")

    def resources(**settings: Any) -> dict[str, Any]:
        of_function = {"FunctionName": {"Ref": "F"}, "Qualifier": "$LATEST"}
        return {**FUNCTION, "A": of("Lambda::EventInvokeConfig", **of_function, **settings)}

    first = resources(MaximumRetryAttempts="1", MaximumEventAgeInSeconds="90")
    assert create(cfn, template(**first), **NAMED) == "CREATE_COMPLETE", refused(cfn, "s")
    assert physical(cfn, "A") == "f|$LATEST"

    def shown() -> tuple[Any, Any]:
        found = client.get_function_event_invoke_config(FunctionName="f", Qualifier="$LATEST")
        return found.get("MaximumRetryAttempts"), found.get("MaximumEventAgeInSeconds")

    assert shown() == (1, 90)
    assert change(cfn, **resources(MaximumRetryAttempts=0)) == "UPDATE_COMPLETE", refused(cfn, "s")
    assert shown() == (0, None)
    again = {"FunctionName": "f", "Qualifier": "$LATEST", "MaximumRetryAttempts": 2}
    other = template(A=of("Lambda::EventInvokeConfig", **again))
    assert create(cfn, other, name="other") == "ROLLBACK_COMPLETE"
    assert "f|$LATEST already exists" in refused(cfn, "other")[-1]
    assert shown() == (0, None)
    client.delete_function_event_invoke_config(FunctionName="f", Qualifier="$LATEST")
    delete(cfn, "s")


def test_each_change_of_a_layer_is_another_version(cloud: InProcessCloud, cfn: Any):
    client = cloud.client("lambda")
    s3 = cloud.client("s3")
    s3.create_bucket(Bucket=BUCKET)
    s3.put_object(Bucket=BUCKET, Key="layer.zip", Body=PARTS["layer.zip"])

    def layer(description: str) -> dict[str, Any]:
        content = {"S3Bucket": BUCKET, "S3Key": "layer.zip"}
        return {"L": of("Lambda::LayerVersion", Content=content, Description=description)}

    assert create(cfn, body(("L.LayerVersionArn",), **layer("a"))) == "CREATE_COMPLETE"
    first = physical(cfn, "L")
    assert outputs(cfn, "s") == {"LLayerVersionArn": first}
    pattern = r"arn:aws:lambda:us-east-1:000000000000:layer:s-L-[A-Z0-9]{12}:1"
    assert re.fullmatch(pattern, first)
    assert client.get_layer_version_by_arn(Arn=first)["Description"] == "a"
    assert change(cfn, **layer("b")) == "UPDATE_COMPLETE", refused(cfn, "s")
    second = physical(cfn, "L")
    listed = client.list_layers()["Layers"]
    assert [each["LatestMatchingVersion"]["LayerVersionArn"] for each in listed] == [second]
    assert first != second
    name, _, version = second.rpartition(":")
    client.delete_layer_version(LayerName=name, VersionNumber=int(version))
    delete(cfn, "s")


STREAM = {"S": of("Kinesis::Stream", Name="in", ShardCount=1)}


def test_a_mapping_is_created_changed_and_gone_when_it_can_be_used(cloud: InProcessCloud, cfn: Any):
    client = cloud.client("lambda")

    def resources(**settings: Any) -> dict[str, Any]:
        source = {"EventSourceArn": {"Fn::GetAtt": ["S", "Arn"]}, "FunctionName": {"Ref": "F"}}
        started = {"StartingPosition": "AT_TIMESTAMP", "StartingPositionTimestamp": "1700000000.5"}
        mapping = of("Lambda::EventSourceMapping", **source, **started, **settings)
        return {**FUNCTION, **STREAM, "M": mapping}

    def tagged(**tags: str) -> dict[str, Any]:
        return {"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}

    attributes = ("M.Id", "M.EventSourceMappingArn")
    first = resources(BatchSize="20", Enabled="false", **tagged(a="1", b="2"))
    assert create(cfn, body(attributes, **first), **NAMED) == "CREATE_COMPLETE", refused(cfn, "s")
    uuid = physical(cfn, "M")

    def shown() -> dict[str, Any]:
        return client.get_event_source_mapping(UUID=uuid)

    arn = shown()["EventSourceMappingArn"]
    assert outputs(cfn, "s") == {"MId": uuid, "MEventSourceMappingArn": arn}
    assert (shown()["BatchSize"], shown()["State"]) == (20, "Disabled")
    assert shown()["StartingPositionTimestamp"].timestamp() == 1700000000.5

    def tags() -> dict[str, str]:
        listed = client.list_tags(Resource=arn)["Tags"]
        return {key: value for key, value in listed.items() if not key.startswith("aws:")}

    assert tags() == {"a": "1", "b": "2"}
    changed = resources(BatchSize=30, BisectBatchOnFunctionError="true", **tagged(b="3"))
    assert change(cfn, **changed) == "UPDATE_COMPLETE", refused(cfn, "s")
    # What an update does not name stays as it is.
    now = shown()
    assert (now["BatchSize"], now["BisectBatchOnFunctionError"], now["State"]) == (
        30,
        True,
        "Disabled",
    )
    assert (physical(cfn, "M"), tags()) == (uuid, {"b": "3"})
    assert change(cfn, **resources(BatchSize=30, **tagged(c="4"))) == "UPDATE_COMPLETE"
    assert (physical(cfn, "M"), tags()) == (uuid, {"c": "4"})
    assert change(cfn, **resources(BatchSize=0)) == "UPDATE_ROLLBACK_COMPLETE"
    assert (shown()["BatchSize"], tags()) == (30, {"c": "4"})
    kafka = of("Lambda::EventSourceMapping", FunctionName="f", Topics=["t"])
    assert create(cfn, template(M=kafka), name="other") == "ROLLBACK_COMPLETE"
    assert "headrace does not support the property Topics" in refused(cfn, "other")[-1]
    assert change(cfn, **FUNCTION, **STREAM) == "UPDATE_COMPLETE", refused(cfn, "s")
    assert client.list_event_source_mappings()["EventSourceMappings"] == []
    assert change(cfn, **resources()) == "UPDATE_COMPLETE"
    client.delete_event_source_mapping(UUID=physical(cfn, "M"))
    delete(cfn, "s")


def test_a_consumer_is_active_and_its_tags_follow(cloud: InProcessCloud, cfn: Any):
    kinesis = cloud.client("kinesis")

    def resources(name: str, **tags: str) -> dict[str, Any]:
        pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
        source = {"ConsumerName": name, "StreamARN": {"Fn::GetAtt": ["S", "Arn"]}}
        return {**STREAM, "C": of("Kinesis::StreamConsumer", **source, Tags=pairs)}

    names = (
        "ConsumerARN",
        "ConsumerName",
        "ConsumerStatus",
        "StreamARN",
        "ConsumerCreationTimestamp",
    )
    attributes = tuple(f"C.{name}" for name in names)
    assert create(cfn, body(attributes, **resources("c", k="1", o="2"))) == "CREATE_COMPLETE"
    arn = physical(cfn, "C")
    found = kinesis.describe_stream_consumer(ConsumerARN=arn)["ConsumerDescription"]
    created = int(found["ConsumerCreationTimestamp"].timestamp())
    values = [arn, "c", "ACTIVE", found["StreamARN"], str(created)]
    assert outputs(cfn, "s") == {f"C{n}": v for n, v in zip(names, values, strict=True)}

    def tags() -> dict[str, str]:
        listed = kinesis.list_tags_for_resource(ResourceARN=arn)["Tags"]
        return {each["Key"]: each["Value"] for each in listed if not each["Key"].startswith("aws:")}

    assert tags() == {"k": "1", "o": "2"}
    assert change(cfn, **resources("c", k="3")) == "UPDATE_COMPLETE", refused(cfn, "s")
    assert (physical(cfn, "C"), tags()) == (arn, {"k": "3"})
    assert change(cfn, **resources("d")) == "UPDATE_COMPLETE", refused(cfn, "s")
    listed = kinesis.list_stream_consumers(StreamARN=found["StreamARN"])["Consumers"]
    assert [each["ConsumerName"] for each in listed] == ["d"]
    kinesis.deregister_stream_consumer(ConsumerARN=physical(cfn, "C"))
    delete(cfn, "s")
