"""Versions, aliases, layers, policies, tags, concurrency, event-invoke configuration."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.lambda_lab import LambdaLab, wait_for_update, zipped

VERSION = "import os\ndef handler(e, c):\n    return os.environ['AWS_LAMBDA_FUNCTION_VERSION']\n"
ARN = "arn:aws:lambda:us-east-1:000000000000:function:f"


@pytest.fixture
def function(lab: LambdaLab) -> Any:
    lab.create("f", VERSION)
    return lab.client()


def code_of(caught: pytest.ExceptionInfo[ClientError]) -> str:
    return str(caught.value.response["Error"]["Code"])


def change(client: Any, text: str) -> None:
    client.update_function_configuration(
        FunctionName="f", Environment={"Variables": {"TEXT": text}}
    )
    wait_for_update(client, "f")


def run(client: Any, **members: Any) -> tuple[str, str]:
    response = client.invoke(FunctionName="f", **members)
    return json.loads(response["Payload"].read()), response["ExecutedVersion"]


# --- versions ---------------------------------------------------------------------------------


def test_a_published_version_does_not_change(function: Any) -> None:
    change(function, "one")
    first = function.publish_version(FunctionName="f", Description="first")
    assert (first["Version"], first["FunctionArn"]) == ("1", f"{ARN}:1")
    change(function, "two")
    config = function.get_function_configuration(FunctionName="f", Qualifier="1")
    assert config["Environment"]["Variables"] == {"TEXT": "one"}
    assert config["Description"] == "first"
    assert run(function, Qualifier="1") == ("1", "1")
    assert run(function) == ("$LATEST", "$LATEST")


def test_publishing_twice_without_a_change_gives_the_same_version(function: Any) -> None:
    assert function.publish_version(FunctionName="f")["Version"] == "1"
    assert function.publish_version(FunctionName="f")["Version"] == "1"
    change(function, "new")
    assert function.publish_version(FunctionName="f")["Version"] == "2"
    versions = function.list_versions_by_function(FunctionName="f")["Versions"]
    assert [v["Version"] for v in versions] == ["$LATEST", "1", "2"]


def test_a_published_version_with_snap_start_is_optimized(function: Any) -> None:
    name = {"FunctionName": "f"}
    function.update_function_configuration(**name, SnapStart={"ApplyOn": "PublishedVersions"})
    wait_for_update(function, "f")
    versions = [function.publish_version(**name) for _ in range(2)]
    assert [one["SnapStart"]["OptimizationStatus"] for one in versions] == ["On", "On"]
    assert versions[0]["Version"] == versions[1]["Version"]
    latest = function.get_function_configuration(**name)
    assert latest["SnapStart"]["OptimizationStatus"] == "Off"


def test_publishing_checks_the_code(function: Any) -> None:
    with pytest.raises(ClientError, match="is different from current CodeSHA256") as caught:
        function.publish_version(FunctionName="f", CodeSha256="other")
    assert code_of(caught) == "InvalidParameterValueException"


def test_numbers_of_deleted_versions_are_not_used_again(function: Any) -> None:
    function.publish_version(FunctionName="f")
    function.delete_function(FunctionName="f", Qualifier="1")
    assert function.publish_version(FunctionName="f")["Version"] == "2"
    with pytest.raises(ClientError):
        function.get_function(FunctionName="f", Qualifier="1")


def test_create_can_publish(lab: LambdaLab) -> None:
    assert lab.create("published", VERSION, Publish=True)["Version"] == "1"


# --- aliases ----------------------------------------------------------------------------------


def test_an_alias_names_a_version_and_moves(function: Any) -> None:
    function.publish_version(FunctionName="f")
    change(function, "x")
    function.publish_version(FunctionName="f")
    alias = function.create_alias(FunctionName="f", Name="live", FunctionVersion="1")
    assert alias["AliasArn"] == f"{ARN}:live"
    assert run(function, Qualifier="live") == ("1", "1")
    function.update_alias(FunctionName="f", Name="live", FunctionVersion="2")
    assert run(function, Qualifier="live") == ("2", "2")
    assert function.get_alias(FunctionName="f", Name="live")["FunctionVersion"] == "2"
    listed = function.list_aliases(FunctionName="f")["Aliases"]
    assert [a["Name"] for a in listed] == ["live"]
    function.delete_alias(FunctionName="f", Name="live")
    with pytest.raises(ClientError) as caught:
        function.get_alias(FunctionName="f", Name="live")
    assert code_of(caught) == "ResourceNotFoundException"


def test_an_alias_can_send_everything_to_its_second_version(function: Any) -> None:
    function.publish_version(FunctionName="f")
    change(function, "x")
    function.publish_version(FunctionName="f")
    function.create_alias(
        FunctionName="f",
        Name="live",
        FunctionVersion="1",
        RoutingConfig={"AdditionalVersionWeights": {"2": 1.0}},
    )
    assert {run(function, Qualifier="live")[1] for _ in range(5)} == {"2"}


def test_bad_aliases_are_refused(function: Any) -> None:
    with pytest.raises(ClientError) as caught:
        function.create_alias(FunctionName="f", Name="live", FunctionVersion="9")
    assert code_of(caught) == "ResourceNotFoundException"
    function.create_alias(FunctionName="f", Name="live", FunctionVersion="$LATEST")
    with pytest.raises(ClientError) as caught:
        function.create_alias(FunctionName="f", Name="live", FunctionVersion="$LATEST")
    assert code_of(caught) == "ResourceConflictException"


# --- layers -----------------------------------------------------------------------------------


def test_layer_versions_count_up_and_are_listed(lab: LambdaLab) -> None:
    client = lab.client()
    for number in (1, 2):
        answer = client.publish_layer_version(
            LayerName="lib",
            Content={"ZipFile": zipped({"python/lib.py": f"n = {number}"})},
            CompatibleRuntimes=["python3.11"],
        )
        assert answer["Version"] == number
    assert answer["LayerVersionArn"] == "arn:aws:lambda:us-east-1:000000000000:layer:lib:2"
    assert answer["Content"]["CodeSize"] > 0
    versions = client.list_layer_versions(LayerName="lib")["LayerVersions"]
    assert [v["Version"] for v in versions] == [2, 1]
    (layer,) = client.list_layers()["Layers"]
    assert layer["LatestMatchingVersion"]["Version"] == 2
    client.delete_layer_version(LayerName="lib", VersionNumber=2)
    with pytest.raises(ClientError) as caught:
        client.get_layer_version(LayerName="lib", VersionNumber=2)
    assert code_of(caught) == "ResourceNotFoundException"
    again = client.publish_layer_version(
        LayerName="lib", Content={"ZipFile": zipped({"python/lib.py": "n = 3"})}
    )
    assert again["Version"] == 3


# --- policies ---------------------------------------------------------------------------------


def test_permissions_make_a_policy(function: Any) -> None:
    answer = function.add_permission(
        FunctionName="f",
        StatementId="s3",
        Action="lambda:InvokeFunction",
        Principal="s3.amazonaws.com",
        SourceArn="arn:aws:s3:::bucket",
        SourceAccount="000000000000",
    )
    statement = json.loads(answer["Statement"])
    assert statement == {
        "Sid": "s3",
        "Effect": "Allow",
        "Principal": {"Service": "s3.amazonaws.com"},
        "Action": "lambda:InvokeFunction",
        "Resource": ARN,
        "Condition": {
            "ArnLike": {"AWS:SourceArn": "arn:aws:s3:::bucket"},
            "StringEquals": {"AWS:SourceAccount": "000000000000"},
        },
    }
    policy = json.loads(function.get_policy(FunctionName="f")["Policy"])
    assert policy["Statement"] == [statement]
    with pytest.raises(ClientError) as caught:
        function.add_permission(
            FunctionName="f", StatementId="s3", Action="lambda:*", Principal="*"
        )
    assert code_of(caught) == "ResourceConflictException"
    function.remove_permission(FunctionName="f", StatementId="s3")
    for action in (
        lambda: function.get_policy(FunctionName="f"),
        lambda: function.remove_permission(FunctionName="f", StatementId="s3"),
    ):
        with pytest.raises(ClientError) as caught:
            action()
        assert code_of(caught) == "ResourceNotFoundException"


# --- tags, concurrency, event-invoke configuration --------------------------------------------


def test_tags_are_added_and_removed(function: Any) -> None:
    function.tag_resource(Resource=ARN, Tags={"a": "1", "b": "2"})
    function.untag_resource(Resource=ARN, TagKeys=["a", "missing"])
    assert function.list_tags(Resource=ARN)["Tags"] == {"b": "2"}


def test_concurrency_is_reserved_within_the_account(function: Any) -> None:
    function.put_function_concurrency(FunctionName="f", ReservedConcurrentExecutions=5)
    answer = function.get_function_concurrency(FunctionName="f")
    assert answer["ReservedConcurrentExecutions"] == 5
    with pytest.raises(ClientError, match="below its minimum value") as caught:
        function.put_function_concurrency(FunctionName="f", ReservedConcurrentExecutions=901)
    assert code_of(caught) == "InvalidParameterValueException"


def test_event_invoke_configuration_is_kept(function: Any) -> None:
    function.put_function_event_invoke_config(FunctionName="f", MaximumRetryAttempts=1)
    function.update_function_event_invoke_config(FunctionName="f", MaximumEventAgeInSeconds=60)
    config = function.get_function_event_invoke_config(FunctionName="f")
    assert (config["MaximumRetryAttempts"], config["MaximumEventAgeInSeconds"]) == (1, 60)
    assert config["FunctionArn"] == f"{ARN}:$LATEST"
    function.delete_function_event_invoke_config(FunctionName="f")
    with pytest.raises(ClientError) as caught:
        function.get_function_event_invoke_config(FunctionName="f")
    assert code_of(caught) == "ResourceNotFoundException"


def test_what_is_not_built_says_so(function: Any) -> None:
    with pytest.raises(ClientError) as caught:
        function.list_capacity_providers()
    assert code_of(caught) == "UnknownOperationException"
