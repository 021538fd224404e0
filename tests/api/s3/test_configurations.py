"""The sub-resources of buckets and objects: what is put is got, and is gone when deleted."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.api.s3.conftest import BUCKET
from tests.api.s3.helpers import S3Lab, error_of

POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": "*",
            "Action": "s3:*",
            "Resource": f"arn:aws:s3:::{BUCKET}/*",
        }
    ],
}
# Name -> (put's parameters, get's answer, delete's name, error code of a get without one).
CONFIGURATIONS: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "bucket_tagging": (
        {"Tagging": {"TagSet": [{"Key": "a", "Value": "b"}]}},
        {"TagSet": [{"Key": "a", "Value": "b"}]},
        "bucket_tagging",
        "NoSuchTagSet",
    ),
    "bucket_policy": (
        {"Policy": json.dumps(POLICY)},
        {"Policy": json.dumps(POLICY)},
        "bucket_policy",
        "NoSuchBucketPolicy",
    ),
    "public_access_block": (
        {"PublicAccessBlockConfiguration": {"BlockPublicAcls": True, "BlockPublicPolicy": False}},
        {"PublicAccessBlockConfiguration": {"BlockPublicAcls": True, "BlockPublicPolicy": False}},
        "public_access_block",
        "NoSuchPublicAccessBlockConfiguration",
    ),
    "bucket_lifecycle_configuration": (
        {
            "LifecycleConfiguration": {
                "Rules": [
                    {
                        "ID": "old",
                        "Status": "Enabled",
                        "Filter": {"Prefix": "logs/"},
                        "Expiration": {"Date": datetime(2030, 1, 1, tzinfo=UTC)},
                        "NoncurrentVersionExpiration": {"NoncurrentDays": 30},
                    }
                ]
            }
        },
        {
            "TransitionDefaultMinimumObjectSize": "all_storage_classes_128K",
            "Rules": [
                {
                    "ID": "old",
                    "Status": "Enabled",
                    "Filter": {"Prefix": "logs/"},
                    "Expiration": {"Date": datetime(2030, 1, 1, tzinfo=UTC)},
                    "NoncurrentVersionExpiration": {"NoncurrentDays": 30},
                }
            ],
        },
        "bucket_lifecycle",
        "NoSuchLifecycleConfiguration",
    ),
    "bucket_cors": (
        {
            "CORSConfiguration": {
                "CORSRules": [{"AllowedMethods": ["GET"], "AllowedOrigins": ["*"]}]
            }
        },
        {"CORSRules": [{"AllowedMethods": ["GET"], "AllowedOrigins": ["*"]}]},
        "bucket_cors",
        "NoSuchCORSConfiguration",
    ),
    "bucket_ownership_controls": (
        {"OwnershipControls": {"Rules": [{"ObjectOwnership": "ObjectWriter"}]}},
        {"OwnershipControls": {"Rules": [{"ObjectOwnership": "ObjectWriter"}]}},
        "bucket_ownership_controls",
        "OwnershipControlsNotFoundError",
    ),
    "bucket_website": (
        {"WebsiteConfiguration": {"IndexDocument": {"Suffix": "index.html"}}},
        {"IndexDocument": {"Suffix": "index.html"}},
        "bucket_website",
        "NoSuchWebsiteConfiguration",
    ),
}


def answer_of(response: dict[str, Any]) -> dict[str, Any]:
    response.pop("ResponseMetadata")
    return response


# --- serialization ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_what_is_put_is_got_and_survives_and_is_gone_when_deleted(lab: S3Lab, s3: Any, name: str):
    given, expected, deletion, code = CONFIGURATIONS[name]
    getattr(s3, f"put_{name}")(Bucket=BUCKET, **given)
    lab.restart()
    assert answer_of(getattr(s3, f"get_{name}")(Bucket=BUCKET)) == expected
    getattr(s3, f"delete_{deletion}")(Bucket=BUCKET)
    with pytest.raises(ClientError) as raised:
        getattr(s3, f"get_{name}")(Bucket=BUCKET)
    assert error_of(raised) == (code, 404)


@pytest.mark.parametrize(
    ("name", "member", "value"),
    [
        ("bucket_versioning", "VersioningConfiguration", {"Status": "Suspended"}),
        (
            "bucket_logging",
            "BucketLoggingStatus",
            {"LoggingEnabled": {"TargetBucket": BUCKET, "TargetPrefix": "logs/"}},
        ),
        (
            "bucket_notification_configuration",
            "NotificationConfiguration",
            {
                "QueueConfigurations": [
                    {
                        "Id": "q",
                        "QueueArn": "arn:aws:sqs:us-east-1:000000000000:q",
                        "Events": ["s3:ObjectCreated:*"],
                    }
                ]
            },
        ),
        ("bucket_accelerate_configuration", "AccelerateConfiguration", {"Status": "Enabled"}),
    ],
)
def test_what_is_empty_until_it_is_put(s3: Any, name: str, member: str, value: dict[str, Any]):
    assert answer_of(getattr(s3, f"get_{name}")(Bucket=BUCKET)) == {}
    getattr(s3, f"put_{name}")(Bucket=BUCKET, **{member: value})
    assert answer_of(getattr(s3, f"get_{name}")(Bucket=BUCKET)) == value


# --- validation ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body", [b"", b"not json", b'{"Version": "2012-10-17"}', b'{"Statement": [1]}', b"[]"]
)
def test_a_policy_must_be_one(lab: S3Lab, s3: Any, body: bytes):
    response = lab.request("PUT", f"/{BUCKET}", "policy", body)
    assert response.status == 400
    with pytest.raises(ClientError):
        s3.get_bucket_policy(Bucket=BUCKET)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"text",
        b"<Tagging/>",
        b"<Tagging><TagSet><Tag><Value>v</Value></Tag></TagSet></Tagging>",
    ],
)
@pytest.mark.parametrize("path", [f"/{BUCKET}", f"/{BUCKET}/k"])
def test_tags_must_be_tags(lab: S3Lab, s3: Any, path: str, body: bytes):
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"")
    response = lab.request("PUT", path, "tagging", body)
    assert (response.status, b"<Code>MalformedXML</Code>" in response.body) == (400, True)


def test_entities_are_not_expanded(lab: S3Lab, s3: Any):
    entities = "".join(f'<!ENTITY e{n} "&e{n - 1};&e{n - 1};">' for n in range(1, 40))
    body = (
        f'<!DOCTYPE t [<!ENTITY e0 "x">{entities}]>'
        "<Tagging><TagSet><Tag><Key>&e39;</Key><Value/></Tag></TagSet></Tagging>"
    )
    response = lab.request("PUT", f"/{BUCKET}", "tagging", body.encode())
    assert (response.status, b"<Code>MalformedXML</Code>" in response.body) == (400, True)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_missing_bucket_has_no_configuration(s3: Any, name: str):
    with pytest.raises(ClientError) as raised:
        getattr(s3, f"get_{name}")(Bucket="nowhere")
    assert error_of(raised) == ("NoSuchBucket", 404)


def test_what_is_not_built_says_so(lab: S3Lab, s3: Any):
    with pytest.raises(ClientError) as raised:
        s3.get_object_torrent(Bucket=BUCKET, Key="k")
    assert error_of(raised) == ("NotImplemented", 501)
    response = lab.request("PATCH", f"/{BUCKET}/k")
    assert (response.status, b"<Code>MethodNotAllowed</Code>" in response.body) == (405, True)


# --- behaviour ----------------------------------------------------------------------------------


def test_a_new_bucket_is_encrypted_and_closed(s3: Any):
    encryption = s3.get_bucket_encryption(Bucket=BUCKET)["ServerSideEncryptionConfiguration"]
    default = encryption["Rules"][0]["ApplyServerSideEncryptionByDefault"]
    assert default == {"SSEAlgorithm": "AES256"}
    block = s3.get_public_access_block(Bucket=BUCKET)["PublicAccessBlockConfiguration"]
    assert set(block.values()) == {True}
    controls = s3.get_bucket_ownership_controls(Bucket=BUCKET)["OwnershipControls"]
    assert controls == {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    assert s3.get_bucket_request_payment(Bucket=BUCKET)["Payer"] == "BucketOwner"


def test_encryption_goes_back_to_the_default_when_deleted(s3: Any):
    rule = {
        "ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": "k"}
    }
    s3.put_bucket_encryption(Bucket=BUCKET, ServerSideEncryptionConfiguration={"Rules": [rule]})
    got = s3.get_bucket_encryption(Bucket=BUCKET)["ServerSideEncryptionConfiguration"]["Rules"]
    assert got == [rule]
    s3.delete_bucket_encryption(Bucket=BUCKET)
    got = s3.get_bucket_encryption(Bucket=BUCKET)["ServerSideEncryptionConfiguration"]["Rules"]
    assert got[0]["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"


def test_a_policy_for_everybody_is_public(s3: Any):
    with pytest.raises(ClientError) as raised:
        s3.get_bucket_policy_status(Bucket=BUCKET)
    assert error_of(raised) == ("NoSuchBucketPolicy", 404)
    s3.put_bucket_policy(Bucket=BUCKET, Policy=json.dumps(POLICY))
    assert s3.get_bucket_policy_status(Bucket=BUCKET)["PolicyStatus"]["IsPublic"] is True


def test_acls_are_off(s3: Any):
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"")
    s3.put_bucket_acl(Bucket=BUCKET, ACL="private")
    s3.put_object_acl(Bucket=BUCKET, Key="k", ACL="bucket-owner-full-control")
    assert s3.get_bucket_acl(Bucket=BUCKET)["Grants"][0]["Permission"] == "FULL_CONTROL"
    assert s3.get_object_acl(Bucket=BUCKET, Key="k")["Grants"][0]["Permission"] == "FULL_CONTROL"
    for call in (
        lambda: s3.put_bucket_acl(Bucket=BUCKET, ACL="public-read"),
        lambda: s3.put_object_acl(Bucket=BUCKET, Key="k", ACL="public-read"),
    ):
        with pytest.raises(ClientError) as raised:
            call()
        assert error_of(raised) == ("AccessControlListNotSupported", 400)


def test_tags_of_objects_are_put_got_and_deleted(lab: S3Lab, s3: Any):
    put = s3.put_object(Bucket=BUCKET, Key="k", Body=b"1", Metadata={"m": "1"})
    tags = [{"Key": "a", "Value": "b"}]
    s3.put_object_tagging(Bucket=BUCKET, Key="k", Tagging={"TagSet": tags})
    lab.restart()
    assert s3.get_object_tagging(Bucket=BUCKET, Key="k")["TagSet"] == tags
    head = s3.head_object(Bucket=BUCKET, Key="k")
    assert (head["ETag"], head["Metadata"], head["TagCount"]) == (put["ETag"], {"m": "1"}, 1)
    s3.delete_object_tagging(Bucket=BUCKET, Key="k")
    assert s3.get_object_tagging(Bucket=BUCKET, Key="k")["TagSet"] == []
    with pytest.raises(ClientError) as raised:
        s3.get_object_tagging(Bucket=BUCKET, Key="none")
    assert error_of(raised) == ("NoSuchKey", 404)


def test_a_bucket_that_blocks_customers_keys_refuses_them_in_writes_alone(s3: Any):
    """Documented: blocking-unblocking-s3-c-encryption-gpb.html."""
    key: dict[str, Any] = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": "k" * 32}

    def block(*kinds: str) -> None:
        rule = {"BlockedEncryptionTypes": {"EncryptionType": kinds}}
        rules: dict[str, Any] = {"Rules": [rule]}
        s3.put_bucket_encryption(Bucket=BUCKET, ServerSideEncryptionConfiguration=rules)

    s3.put_object(Bucket=BUCKET, Key="before", Body=b"1", **key)
    block("SSE-C")
    copy = {"CopySource": f"{BUCKET}/plain"}
    s3.put_object(Bucket=BUCKET, Key="plain", Body=b"2")
    for call in (
        lambda: s3.put_object(Bucket=BUCKET, Key="k", Body=b"", **key),
        lambda: s3.copy_object(Bucket=BUCKET, Key="k", **copy, **key),
        lambda: s3.create_multipart_upload(Bucket=BUCKET, Key="k", **key),
    ):
        with pytest.raises(ClientError) as raised:
            call()
        assert error_of(raised) == ("AccessDenied", 403)
    assert s3.get_object(Bucket=BUCKET, Key="before", **key)["Body"].read() == b"1"
    block("NONE")
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"", **key)
