"""Create-, Update-, Get-, List- and DeleteFunction."""

from __future__ import annotations

import re
import urllib.parse
import zipfile
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.aws.calls.http import HttpRequest
from tests.support.lambda_lab import ROLE, LambdaLab, zipped

HELLO = "def handler(event, context):\n    return 'hello'\n"
GOODBYE = "def handler(event, context):\n    return 'goodbye'\n"


def answer_of(client: Any, name: str, **members: Any) -> bytes:
    return client.invoke(FunctionName=name, **members)["Payload"].read()


def error_of(caught: pytest.ExceptionInfo[ClientError]) -> tuple[str, int]:
    response = caught.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


# --- serialization ----------------------------------------------------------------------------


def test_create_answers_with_the_whole_configuration(shared_lab: LambdaLab) -> None:
    created = shared_lab.create(
        "whole",
        HELLO,
        Environment={"Variables": {"AB": "1"}},
        MemorySize=256,
        Description="says hello",
    )
    assert created["ResponseMetadata"]["HTTPStatusCode"] == 201
    assert created["FunctionArn"] == "arn:aws:lambda:us-east-1:000000000000:function:whole"
    assert (created["State"], created["StateReasonCode"]) == ("Pending", "Creating")
    now = shared_lab.client().get_function_configuration(FunctionName="whole")
    assert (now["State"], now["LastUpdateStatus"]) == ("Active", "Successful")
    assert now["RevisionId"] != created["RevisionId"]
    assert created["Version"] == "$LATEST"
    assert (created["Timeout"], created["MemorySize"]) == (10, 256)
    assert created["Environment"] == {"Variables": {"AB": "1"}}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+0000", created["LastModified"])
    assert len(created["CodeSha256"]) == 44


def test_get_gives_configuration_tags_and_a_place_to_download_the_package(
    shared_lab: LambdaLab,
) -> None:
    shared_lab.create("got", HELLO, Tags={"team": "delays"})
    answer = shared_lab.client().get_function(FunctionName="got")
    assert answer["Tags"] == {"team": "delays"}
    assert answer["Configuration"]["FunctionName"] == "got"
    path = urllib.parse.urlsplit(answer["Code"]["Location"]).path
    package = shared_lab.handle(HttpRequest("GET", path))
    assert package.status == 200
    assert package.body == zipped({"app.py": HELLO})


def test_functions_are_listed_by_name_in_pages(lab: LambdaLab) -> None:
    for name in ("c", "a", "b"):
        lab.create(name, HELLO)
    pages = lab.client().get_paginator("list_functions").paginate(PaginationConfig={"PageSize": 2})
    assert [f["FunctionName"] for page in pages for f in page["Functions"]] == ["a", "b", "c"]


# --- validation -------------------------------------------------------------------------------


def test_a_name_that_is_taken_is_a_conflict(shared_lab: LambdaLab) -> None:
    shared_lab.create("taken", HELLO)
    with pytest.raises(ClientError, match="Function already exist: taken") as caught:
        shared_lab.create("taken", HELLO)
    assert error_of(caught) == ("ResourceConflictException", 409)


def test_a_missing_function_is_not_found(client: Any) -> None:
    for action, version in (
        (client.get_function, ""),
        (client.delete_function, ""),
        (client.invoke, ":$LATEST"),
    ):
        with pytest.raises(ClientError) as caught:
            action(FunctionName="missing")
        assert error_of(caught) == ("ResourceNotFoundException", 404)
        message = f"arn:aws:lambda:us-east-1:000000000000:function:missing{version}"
        assert caught.value.response["Error"]["Message"] == f"Function not found: {message}"


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"Code": {"ZipFile": b"no zip"}}, "Could not unzip uploaded file"),
        ({"Code": {"ZipFile": zipped({"../evil.py": "x"})}}, "Could not unzip uploaded file"),
        ({"Code": {"S3Bucket": "code", "S3Key": "missing"}}, "S3 Error Code: NoSuchBucket"),
        ({"Code": {}}, "Please provide a source for function code."),
        ({"Runtime": "java21"}, "headrace cannot run the runtime java21"),
        ({"Handler": None}, "Runtime and Handler are mandatory parameters"),
        ({"Environment": {"Variables": {"AWS_REGION": "x"}}}, "reserved keys"),
        ({"Environment": {"Variables": {"AB": "x" * 5000}}}, "exceeded the 4KB limit"),
        ({"Layers": ["arn:aws:lambda:us-east-1:000000000000:layer:none:1"]}, "does not exist"),
        ({"PackageType": "Image", "Code": {"ImageUri": "image"}}, "container images"),
    ],
)
def test_bad_functions_are_refused(
    shared_lab: LambdaLab, members: dict[str, Any], message: str
) -> None:
    given = {
        "FunctionName": "bad",
        "Role": ROLE,
        "Runtime": "python3.11",
        "Handler": "app.handler",
        "Code": {"ZipFile": zipped({"app.py": HELLO})},
        **members,
    }
    with pytest.raises(ClientError) as caught:
        shared_lab.client().create_function(**{k: v for k, v in given.items() if v is not None})
    assert error_of(caught) == ("InvalidParameterValueException", 400)
    assert message in caught.value.response["Error"]["Message"]
    assert not [
        f for f in shared_lab.client().list_functions()["Functions"] if f["FunctionName"] == "bad"
    ]


@pytest.mark.parametrize(
    "members",
    [{"Timeout": 901}, {"Timeout": 0}, {"MemorySize": 64}, {"Runtime": "cobol"}, {"Role": "me"}],
)
def test_members_out_of_range_are_refused(shared_lab: LambdaLab, members: dict[str, Any]) -> None:
    with pytest.raises(ClientError) as caught:
        shared_lab.create("range", HELLO, **members)
    assert error_of(caught)[1] == 400


def test_a_zip_bomb_is_refused_and_leaves_no_file(lab: LambdaLab) -> None:
    bomb = lab.data_dir / "bomb.zip"
    with (
        zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("z", "w") as zeros,
    ):
        for _ in range(260):
            zeros.write(b"\0" * 1_048_576)
    with pytest.raises(ClientError, match="Unzipped size must be smaller than 262144000 bytes"):
        lab.create("bomb", "", Code={"ZipFile": bomb.read_bytes()})
    assert list((lab.data_dir / "lambda" / "code").iterdir()) == []


def test_a_change_for_an_older_revision_is_refused(shared_lab: LambdaLab) -> None:
    client = shared_lab.client()
    shared_lab.create("revised", HELLO)
    with pytest.raises(ClientError) as caught:
        client.update_function_configuration(FunctionName="revised", RevisionId="old", Timeout=5)
    assert error_of(caught) == ("PreconditionFailedException", 412)
    assert client.get_function_configuration(FunctionName="revised")["Timeout"] == 10


# --- behaviour --------------------------------------------------------------------------------


def test_code_comes_from_s3(lab: LambdaLab) -> None:
    lab.box.put_object("assets", "code.zip", zipped({"app.py": HELLO}))
    lab.create("s3", "", Code={"S3Bucket": "assets", "S3Key": "code.zip"})
    assert answer_of(lab.client(), "s3") == b'"hello"'


def test_new_code_is_used_by_the_next_invocation(shared_lab: LambdaLab) -> None:
    client = shared_lab.client()
    before = shared_lab.create("updated", HELLO)
    assert answer_of(client, "updated") == b'"hello"'
    after = client.update_function_code(FunctionName="updated", ZipFile=zipped({"app.py": GOODBYE}))
    assert after["CodeSha256"] != before["CodeSha256"]
    assert after["RevisionId"] != before["RevisionId"]
    assert answer_of(client, "updated") == b'"goodbye"'


def test_new_configuration_is_used_by_the_next_invocation(shared_lab: LambdaLab) -> None:
    client = shared_lab.client()
    shared_lab.create("env", "import os\ndef handler(e, c):\n    return os.environ.get('COLOUR')\n")
    assert answer_of(client, "env") == b"null"
    client.update_function_configuration(
        FunctionName="env", Environment={"Variables": {"COLOUR": "blue"}}
    )
    assert answer_of(client, "env") == b'"blue"'


def test_a_deleted_function_is_gone(shared_lab: LambdaLab) -> None:
    client = shared_lab.client()
    shared_lab.create("gone", HELLO)
    client.delete_function(FunctionName="gone")
    with pytest.raises(ClientError):
        client.get_function(FunctionName="gone")


def test_functions_last_over_a_restart(lab: LambdaLab) -> None:
    lab.create("lasting", HELLO, Tags={"a": "b"})
    lab.client().publish_version(FunctionName="lasting")
    lab.client().create_alias(FunctionName="lasting", Name="live", FunctionVersion="1")
    lab.restart()
    assert answer_of(lab.client(), "lasting", Qualifier="live") == b'"hello"'
    assert lab.client().get_function(FunctionName="lasting")["Tags"] == {"a": "b"}


def test_packages_that_no_function_uses_are_removed_at_the_next_start(lab: LambdaLab) -> None:
    lab.create("kept", HELLO)
    lab.create("dropped", GOODBYE)
    code = lab.data_dir / "lambda" / "code"
    assert len(list(code.iterdir())) == 4
    lab.client().delete_function(FunctionName="dropped")
    (code / "new-half").mkdir()
    lab.restart()
    assert len(list(code.iterdir())) == 2
    assert answer_of(lab.client(), "kept") == b'"hello"'


def test_accounts_and_regions_are_apart(shared_lab: LambdaLab) -> None:
    shared_lab.create("apart", HELLO)
    for elsewhere in ({"region": "eu-west-1"}, {"account": "111111111111"}):
        with pytest.raises(ClientError):
            shared_lab.client(**elsewhere).get_function(FunctionName="apart")


@pytest.mark.parametrize(
    "name",
    [
        "named",
        "named:$LATEST",
        "function:named",
        "000000000000:function:named",
        "arn:aws:lambda:us-east-1:000000000000:function:named",
        "arn:aws:lambda:us-east-1:000000000000:function:named:$LATEST",
    ],
)
def test_a_function_answers_to_all_its_names(shared_lab: LambdaLab, name: str) -> None:
    if shared_lab.lambda_.functions.all("000000000000", "us-east-1") and not any(
        f.name == "named" for f in shared_lab.lambda_.functions.all("000000000000", "us-east-1")
    ):
        shared_lab.create("named", HELLO)
    assert answer_of(shared_lab.client(), name) == b'"hello"'


def test_nothing_is_written_outside_the_data_directory(tmp_path: Path) -> None:
    with LambdaLab(tmp_path / "data") as lab:
        for name in ("../../evil.py", "/tmp/evil.py", "a/../../../evil.py"):
            with pytest.raises(ClientError):
                lab.create("evil", "", Code={"ZipFile": zipped({name: "x"})})
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"DurableConfig": {"ExecutionTimeout": 60}}, "durable executions"),
        (
            {
                "CapacityProviderConfig": {
                    "LambdaManagedInstancesCapacityProviderConfig": {
                        "CapacityProviderArn": "arn:aws:lambda:us-east-1:000000000000:capacity-provider:p"
                    }
                }
            },
            "capacity providers",
        ),
        (
            {
                "RuntimeConfig": {
                    "RuntimeAlias": "mine",
                    "RuntimeArn": "arn:aws:lambda:us-east-1:000000000000:runtime/other",
                }
            },
            "custom runtimes",
        ),
    ],
)
def test_what_a_function_would_be_promised_in_vain_is_refused_by_name(
    lab: LambdaLab, members: dict[str, Any], words: str
) -> None:
    client = lab.client()
    (member,) = members
    with pytest.raises(ClientError, match=words) as caught:
        lab.create("promised", "def handler(event, context):\n    return 1\n", **members)
    assert caught.value.response["Error"]["Code"] == "InvalidParameterValueException"
    assert member in caught.value.response["Error"]["Message"]
    lab.create("promised", "def handler(event, context):\n    return 1\n")
    with pytest.raises(ClientError, match=words):
        client.update_function_configuration(FunctionName="promised", **members)
    with pytest.raises(ClientError, match="capacity providers"):
        client.publish_version(FunctionName="promised", PublishTo="LATEST_PUBLISHED")
