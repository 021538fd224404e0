"""S3's calls with every member, and how each member is read back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from headrace.aws.calls.operation import operation_model
from tests.api.s3.conftest import BUCKET
from tests.support.read_back import Case, Read

B = {"Bucket": BUCKET}
ACCOUNT = "000000000000"
BUCKET_POLICY = (
    '{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Principal":"*","Action":"s3:GetObject",'
    f'"Resource":"arn:aws:s3:::{BUCKET}/*"}}]}}'
)
LAKE = f"arn:aws:s3:::{BUCKET}"
OWNER: dict[str, Any] = {"Bucket": BUCKET, "ExpectedBucketOwner": ACCOUNT}
SENT = {
    "ContentMD5": "boto3 sends a checksum; tests/api/s3/test_put_object.py sends it",
    "ChecksumAlgorithm": "how the body was checked",
}
CHECKED = {"Bucket": "of the request", "ExpectedBucketOwner": "compared with the owner"}
VERSIONED: Read = (
    "PutBucketVersioning",
    {**B, "VersioningConfiguration": {"Status": "Enabled"}},
)


def case(
    name: str,
    given: dict[str, Any],
    *,
    get: str = "",
    without: dict[str, str] | None = None,
    unseen: dict[str, str] | None = None,
    before: list[Read] | None = None,
    ask: dict[str, Any] | None = None,
) -> Case:
    """Return the case of Put<name>, read by Get<name>."""
    shape: Any = operation_model("s3", f"Put{name}").input_shape
    members = shape.members
    sent = {member: why for member, why in SENT.items() if member in members}
    return Case(
        f"Put{name}",
        [(get or f"Get{name}", {**B, **(ask or {})})],
        given={**OWNER, **given},
        without={**sent, **(without or {})},
        unseen={**CHECKED, **(unseen or {})},
        before=before or [],
    )


RULE = {
    "ID": "r",
    "Status": "Enabled",
    "Filter": {"Prefix": "p"},
    "Expiration": {"Days": 7},
    "NoncurrentVersionExpiration": {"NoncurrentDays": 3, "NewerNoncurrentVersions": 2},
    "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 2},
    "Transitions": [{"Days": 5, "StorageClass": "GLACIER"}],
    "NoncurrentVersionTransitions": [{"NoncurrentDays": 2, "StorageClass": "GLACIER"}],
}
S3_TARGET = {
    "S3BucketDestination": {
        "Bucket": LAKE,
        "Format": "CSV",
        "Prefix": "out",
        "BucketAccountId": ACCOUNT,
    }
}
TAG = {"Key": "k", "Value": "v"}
PREFIX_AND_TAGS = {"And": {"Prefix": "p", "Tags": [TAG]}}
ALL_BUT: list[dict[str, Any]] = [
    {"Prefix": "n"},
    {"Tag": TAG},
    {"Or": {"Prefixes": ["a"], "Tags": [TAG]}},
]
FILTERS: list[dict[str, Any]] = [
    {"Prefix": "p"},
    {"Tag": TAG},
    PREFIX_AND_TAGS,
    *({"Not": one} for one in ALL_BUT),
    *({"And": {"Prefix": "p", "Not": one}} for one in ALL_BUT),
]
DAY = datetime(2030, 1, 1, tzinfo=UTC)
EVENTS: dict[str, Any] = {
    "Id": "n",
    "Events": ["s3:ObjectCreated:*"],
    "Filter": {"Key": {"FilterRules": [{"Name": "Prefix", "Value": "p"}]}},
}


def in_each(name: str, values: list[dict[str, Any]], **fixed: Any) -> list[Case]:
    """Return a case of a configuration with an id for each of some values, beside fixed ones."""
    return [
        case(
            name,
            {"Id": "a", name.removeprefix("Bucket"): {"Id": "a", **fixed, **one}},
            ask={"Id": "a"},
        )
        for one in values
    ]


def replicated(rule_filter: dict[str, Any]) -> dict[str, Any]:
    """Return a replication rule with every member."""
    return {
        "ID": str(rule_filter),
        "Priority": len(str(rule_filter)),
        "Status": "Enabled",
        "Filter": rule_filter,
        "SourceSelectionCriteria": {
            "SseKmsEncryptedObjects": {"Status": "Enabled"},
            "ReplicaModifications": {"Status": "Disabled"},
        },
        "ExistingObjectReplication": {"Status": "Enabled"},
        "DeleteMarkerReplication": {"Status": "Disabled"},
        "Destination": {
            "Bucket": LAKE,
            "Account": ACCOUNT,
            "StorageClass": "STANDARD_IA",
            "AccessControlTranslation": {"Owner": "Destination"},
            "EncryptionConfiguration": {
                "ReplicaKmsKeyID": "k",
                "UseSourceMultiRegionKey": {"Status": "Enabled"},
            },
            "ReplicationTime": {"Status": "Enabled", "Time": {"Minutes": 15}},
            "Metrics": {"Status": "Enabled", "EventThreshold": {"Minutes": 15}},
        },
    }


CASES = [
    *in_each(
        "BucketAnalyticsConfiguration",
        [{"Filter": {"Prefix": "p"}}, {"Filter": {"Tag": TAG}}],
        StorageClassAnalysis={},
    ),
    *in_each(
        "BucketIntelligentTieringConfiguration",
        [{"Filter": PREFIX_AND_TAGS}, {"Filter": {"Tag": TAG}}],
        Status="Enabled",
        Tierings=[{"Days": 91, "AccessTier": "ARCHIVE_ACCESS"}],
    ),
    *in_each(
        "BucketMetricsConfiguration",
        [
            {"Filter": {"Tag": TAG}},
            {"Filter": {"AccessPointArn": "arn:aws:s3:us-east-1:000000000000:accesspoint/p"}},
            {"Filter": {"And": {**PREFIX_AND_TAGS["And"], "AccessPointArn": "arn:aws:s3:::ap/q"}}},
        ],
    ),
    *in_each(
        "BucketInventoryConfiguration",
        [{"Filter": {"Prefix": "p"}}],
        IsEnabled=True,
        IncludedObjectVersions="Current",
        Schedule={"Frequency": "Weekly"},
        Destination={
            "S3BucketDestination": {"Bucket": LAKE, "Format": "CSV", "Encryption": {"SSES3": {}}}
        },
    ),
    case(
        "BucketLifecycleConfiguration",
        {
            "LifecycleConfiguration": {
                "Rules": [
                    {"ID": str(number), "Status": "Disabled", **one}
                    for number, one in enumerate(
                        (
                            {"Prefix": "p", "Expiration": {"Date": DAY}},
                            {
                                "Prefix": "q",
                                "Transitions": [{"Date": DAY, "StorageClass": "GLACIER"}],
                            },
                            {"Prefix": "r", "Expiration": {"ExpiredObjectDeleteMarker": True}},
                        )
                    )
                ]
            },
            "TransitionDefaultMinimumObjectSize": "varies_by_storage_class",
        },
    ),
    case(
        "BucketLifecycleConfiguration",
        {
            "LifecycleConfiguration": {
                "Rules": [
                    {
                        "ID": str(number),
                        "Status": "Enabled",
                        "Filter": one,
                        "NoncurrentVersionTransitions": [
                            {
                                "NoncurrentDays": 3,
                                "NewerNoncurrentVersions": 5,
                                "StorageClass": "GLACIER",
                            }
                        ],
                    }
                    for number, one in enumerate(
                        (
                            {"Tag": TAG},
                            {"ObjectSizeGreaterThan": 11},
                            {"ObjectSizeLessThan": 12},
                            {
                                "And": {
                                    "Prefix": "p",
                                    "Tags": [TAG],
                                    "ObjectSizeGreaterThan": 13,
                                    "ObjectSizeLessThan": 14,
                                }
                            },
                        )
                    )
                ]
            },
            "TransitionDefaultMinimumObjectSize": "varies_by_storage_class",
        },
    ),
    case(
        "BucketLogging",
        {
            "BucketLoggingStatus": {
                "LoggingEnabled": {
                    "TargetBucket": BUCKET,
                    "TargetPrefix": "log",
                    "TargetObjectKeyFormat": {"SimplePrefix": {}},
                    "TargetGrants": [
                        {
                            "Grantee": {
                                "Type": "Group",
                                "URI": "http://acs.amazonaws.com/groups/s3/LogDelivery",
                            },
                            "Permission": "READ",
                        },
                        {
                            "Grantee": {"Type": "CanonicalUser", "ID": "a", "DisplayName": "n"},
                            "Permission": "WRITE",
                        },
                        {
                            "Grantee": {
                                "Type": "AmazonCustomerByEmail",
                                "EmailAddress": "a@b.test",
                            },
                            "Permission": "READ",
                        },
                    ],
                }
            }
        },
    ),
    case(
        "BucketNotificationConfiguration",
        {
            "NotificationConfiguration": {
                "QueueConfigurations": [
                    {**EVENTS, "QueueArn": "arn:aws:sqs:us-east-1:000000000000:q"}
                ],
                "TopicConfigurations": [
                    {
                        **EVENTS,
                        "Id": "t",
                        "Events": ["s3:ObjectRemoved:*"],
                        "TopicArn": "arn:aws:sns:us-east-1:000000000000:t",
                    }
                ],
                "LambdaFunctionConfigurations": [
                    {
                        **EVENTS,
                        "Id": "l",
                        "Events": ["s3:ObjectTagging:*"],
                        "LambdaFunctionArn": "arn:aws:lambda:us-east-1:000000000000:function:f",
                    }
                ],
            },
            "SkipDestinationValidation": True,
        },
        unseen={"SkipDestinationValidation": "says what is checked"},
    ),
    case(
        "BucketReplication",
        {
            "ReplicationConfiguration": {
                "Role": "arn:aws:iam::000000000000:role/r",
                "Rules": [replicated(one) for one in FILTERS],
            }
        },
        before=[VERSIONED],
    ),
    case(
        "BucketReplication",
        {
            "ReplicationConfiguration": {
                "Role": "arn:aws:iam::000000000000:role/r",
                "Rules": [
                    {"ID": "r", "Status": "Enabled", "Prefix": "p", "Destination": {"Bucket": LAKE}}
                ],
            }
        },
        before=[VERSIONED],
    ),
    case(
        "BucketWebsite",
        {
            "WebsiteConfiguration": {
                "RedirectAllRequestsTo": {"HostName": "x.test", "Protocol": "https"}
            }
        },
    ),
    case("BucketAccelerateConfiguration", {"AccelerateConfiguration": {"Status": "Enabled"}}),
    case(
        "BucketAnalyticsConfiguration",
        {
            "Id": "a",
            "AnalyticsConfiguration": {
                "Id": "a",
                "Filter": {"And": {"Prefix": "p", "Tags": [{"Key": "k", "Value": "v"}]}},
                "StorageClassAnalysis": {
                    "DataExport": {"OutputSchemaVersion": "V_1", "Destination": S3_TARGET}
                },
            },
        },
        ask={"Id": "a"},
    ),
    case(
        "BucketCors",
        {
            "CORSConfiguration": {
                "CORSRules": [
                    {
                        "ID": "r",
                        "AllowedHeaders": ["a"],
                        "AllowedMethods": ["GET"],
                        "AllowedOrigins": ["http://x.test"],
                        "ExposeHeaders": ["e"],
                        "MaxAgeSeconds": 11,
                    }
                ]
            }
        },
    ),
    case(
        "BucketIntelligentTieringConfiguration",
        {
            "Id": "a",
            "IntelligentTieringConfiguration": {
                "Id": "a",
                "Status": "Enabled",
                "Filter": {"Prefix": "p"},
                "Tierings": [{"Days": 91, "AccessTier": "ARCHIVE_ACCESS"}],
            },
        },
        ask={"Id": "a"},
    ),
    case(
        "BucketInventoryConfiguration",
        {
            "Id": "a",
            "InventoryConfiguration": {
                "Id": "a",
                "IsEnabled": True,
                "Filter": {"Prefix": "p"},
                "IncludedObjectVersions": "Current",
                "OptionalFields": ["Size"],
                "Schedule": {"Frequency": "Weekly"},
                "Destination": {
                    "S3BucketDestination": {
                        "AccountId": ACCOUNT,
                        "Bucket": LAKE,
                        "Format": "ORC",
                        "Prefix": "out",
                        "Encryption": {"SSEKMS": {"KeyId": "k"}},
                    }
                },
            },
        },
        ask={"Id": "a"},
    ),
    case(
        "BucketLifecycleConfiguration",
        {
            "LifecycleConfiguration": {"Rules": [RULE]},
            "TransitionDefaultMinimumObjectSize": "varies_by_storage_class",
        },
    ),
    case(
        "BucketLogging",
        {
            "BucketLoggingStatus": {
                "LoggingEnabled": {
                    "TargetBucket": BUCKET,
                    "TargetPrefix": "log",
                    "TargetObjectKeyFormat": {
                        "PartitionedPrefix": {"PartitionDateSource": "EventTime"}
                    },
                }
            }
        },
    ),
    case(
        "BucketMetricsConfiguration",
        {"Id": "a", "MetricsConfiguration": {"Id": "a", "Filter": {"Prefix": "p"}}},
        ask={"Id": "a"},
    ),
    case(
        "BucketNotificationConfiguration",
        {"NotificationConfiguration": {"EventBridgeConfiguration": {}}},
        without={"SkipDestinationValidation": "tests/api/s3/test_notifications.py"},
    ),
    case(
        "BucketOwnershipControls",
        {"OwnershipControls": {"Rules": [{"ObjectOwnership": "ObjectWriter"}]}},
    ),
    case(
        "BucketPolicy",
        {"Policy": BUCKET_POLICY},
    ),
    case(
        "BucketReplication",
        {
            "ReplicationConfiguration": {
                "Role": "arn:aws:iam::000000000000:role/r",
                "Rules": [
                    {
                        "ID": "r",
                        "Priority": 1,
                        "Status": "Enabled",
                        "Filter": {"Prefix": "p"},
                        "DeleteMarkerReplication": {"Status": "Disabled"},
                        "Destination": {"Bucket": LAKE, "StorageClass": "STANDARD_IA"},
                    }
                ],
            }
        },
        before=[VERSIONED],
    ),
    case("BucketRequestPayment", {"RequestPaymentConfiguration": {"Payer": "Requester"}}),
    case("BucketTagging", {"Tagging": {"TagSet": [{"Key": "a", "Value": "b"}]}}),
    case(
        "BucketVersioning",
        {"VersioningConfiguration": {"Status": "Enabled", "MFADelete": "Disabled"}},
    ),
    case(
        "BucketWebsite",
        {
            "WebsiteConfiguration": {
                "IndexDocument": {"Suffix": "index.html"},
                "ErrorDocument": {"Key": "error.html"},
                "RoutingRules": [
                    {
                        "Condition": {
                            "KeyPrefixEquals": "a/",
                            "HttpErrorCodeReturnedEquals": "404",
                        },
                        "Redirect": {
                            "HostName": "x.test",
                            "HttpRedirectCode": "302",
                            "Protocol": "https",
                            "ReplaceKeyPrefixWith": "b/",
                        },
                    },
                    {"Redirect": {"ReplaceKeyWith": "c"}},
                ],
            }
        },
    ),
    case(
        "PublicAccessBlock",
        {
            "PublicAccessBlockConfiguration": {
                "BlockPublicAcls": True,
                "IgnorePublicAcls": False,
                "BlockPublicPolicy": True,
                "RestrictPublicBuckets": False,
            }
        },
    ),
    case(
        "ObjectTagging",
        {"Key": "k", "Tagging": {"TagSet": [{"Key": "a", "Value": "b"}]}},
        without={"VersionId": "tests/conformance/s3/tags.json"},
        unseen={"Key": "of the request"},
        before=[("PutObject", {**B, "Key": "k"})],
        ask={"Key": "k"},
    ),
]
