"""S3 buckets and their policies."""

from __future__ import annotations

import json
from typing import Any

from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.resources.base import (
    Context,
    Made,
    Properties,
    ResourceType,
    enforced,
    ignored,
    stored,
    tag_list,
)


def _create_bucket(context: Context, properties: Properties) -> Made:
    name = properties.get("BucketName") or context.generated_name(63, lower=True)
    params: dict[str, Any] = {"Bucket": name}
    if context.region != "us-east-1":
        params["CreateBucketConfiguration"] = {"LocationConstraint": context.region}
    context.call("s3", "CreateBucket", params)
    context.note_made(name)
    _configure(context, name, properties)
    return _made(context, name)


def _find_bucket(context: Context, properties: Properties) -> str | None:
    # Whoever made it: its owner may "create" it again, and a rollback would delete it.
    name = properties.get("BucketName")
    return context.found("s3", "HeadBucket", {"Bucket": name}, name)


def _made(context: Context, name: str) -> Made:
    return Made(
        name,
        {
            "Arn": f"arn:aws:s3:::{name}",
            "DomainName": f"{name}.s3.amazonaws.com",
            "RegionalDomainName": f"{name}.s3.{context.region}.amazonaws.com",
            "DualStackDomainName": f"{name}.s3.dualstack.{context.region}.amazonaws.com",
            "WebsiteURL": f"http://{name}.s3-website-{context.region}.amazonaws.com",
        },
    )


def _configure(context: Context, name: str, properties: Properties) -> None:
    def put(operation: str, member: str, value: Any) -> None:
        context.call("s3", operation, {"Bucket": name, member: value})

    if "BucketEncryption" in properties:
        rules = [
            {
                "ApplyServerSideEncryptionByDefault": rule.get("ServerSideEncryptionByDefault", {}),
                "BucketKeyEnabled": rule.get("BucketKeyEnabled", False),
            }
            for rule in properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        ]
        put("PutBucketEncryption", "ServerSideEncryptionConfiguration", {"Rules": rules})
    if "VersioningConfiguration" in properties:
        put("PutBucketVersioning", "VersioningConfiguration", properties["VersioningConfiguration"])
    if "PublicAccessBlockConfiguration" in properties:
        put(
            "PutPublicAccessBlock",
            "PublicAccessBlockConfiguration",
            properties["PublicAccessBlockConfiguration"],
        )
    if "OwnershipControls" in properties:
        put("PutBucketOwnershipControls", "OwnershipControls", properties["OwnershipControls"])
    if "CorsConfiguration" in properties:
        rules = [_cors(rule) for rule in properties["CorsConfiguration"]["CorsRules"]]
        put("PutBucketCors", "CORSConfiguration", {"CORSRules": rules})
    if "LifecycleConfiguration" in properties:
        rules = [_lifecycle(rule) for rule in properties["LifecycleConfiguration"]["Rules"]]
        put("PutBucketLifecycleConfiguration", "LifecycleConfiguration", {"Rules": rules})
    if "NotificationConfiguration" in properties:
        wanted = _notifications(properties["NotificationConfiguration"])
        put("PutBucketNotificationConfiguration", "NotificationConfiguration", wanted)
    tags = tag_list(properties, context)
    if tags:
        put("PutBucketTagging", "Tagging", {"TagSet": tags})


def _cors(rule: Properties) -> Properties:
    """Return a CORS rule in the API's form, which has other names for three members."""
    names = {"Id": "ID", "ExposedHeaders": "ExposeHeaders", "MaxAge": "MaxAgeSeconds"}
    turned = {names.get(name, name): value for name, value in rule.items()}
    if "MaxAgeSeconds" in turned:
        turned["MaxAgeSeconds"] = int(turned["MaxAgeSeconds"])
    return turned


def _notifications(configuration: Properties) -> Properties:
    """Return a notification configuration in the API's form: a list of events where templates have one."""
    turned: Properties = {}
    for name, api_name, target, arn in (
        ("TopicConfigurations", "TopicConfigurations", "Topic", "TopicArn"),
        ("QueueConfigurations", "QueueConfigurations", "Queue", "QueueArn"),
        ("LambdaConfigurations", "LambdaFunctionConfigurations", "Function", "LambdaFunctionArn"),
    ):
        if configuration.get(name):
            turned[api_name] = [
                {
                    arn: one[target],
                    "Events": [one["Event"]],
                    "Filter": {"Key": {"FilterRules": _filter_rules(one)}},
                }
                for one in configuration[name]
            ]
    bridge = configuration.get("EventBridgeConfiguration")
    if bridge is not None and str(bridge.get("EventBridgeEnabled", True)).lower() == "true":
        turned["EventBridgeConfiguration"] = {}
    return turned


def _filter_rules(one: Properties) -> list[Properties]:
    key = one.get("Filter", {}).get("S3Key", {})
    return [{"Name": rule["Name"], "Value": rule["Value"]} for rule in key.get("Rules", [])]


def _lifecycle(rule: Properties) -> Properties:
    """Return a lifecycle rule in the API's form, for the parts that both forms have."""
    turned = {
        "ID": rule.get("Id", ""),
        "Status": rule["Status"],
        "Filter": {"Prefix": rule.get("Prefix", "")},
    }
    if "ExpirationInDays" in rule:
        turned["Expiration"] = {"Days": int(rule["ExpirationInDays"])}
    if "AbortIncompleteMultipartUpload" in rule:
        days = int(rule["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"])
        turned["AbortIncompleteMultipartUpload"] = {"DaysAfterInitiation": days}
    if "NoncurrentVersionExpiration" in rule:
        days = int(rule["NoncurrentVersionExpiration"]["NoncurrentDays"])
        turned["NoncurrentVersionExpiration"] = {"NoncurrentDays": days}
    if "Transitions" in rule:
        turned["Transitions"] = [
            {"StorageClass": t["StorageClass"], "Days": int(t.get("TransitionInDays", 0))}
            for t in rule["Transitions"]
        ]
    return turned


_REMOVE = {
    "LifecycleConfiguration": "DeleteBucketLifecycle",
    "CorsConfiguration": "DeleteBucketCors",
    "PublicAccessBlockConfiguration": "DeletePublicAccessBlock",
    "BucketEncryption": "DeleteBucketEncryption",
    "OwnershipControls": "DeleteBucketOwnershipControls",
}


def _update_bucket(context: Context, physical_id: str, old: Properties, new: Properties) -> Made:
    for name, operation in _REMOVE.items():
        if name in old and name not in new:
            context.call("s3", operation, {"Bucket": physical_id})
    if "NotificationConfiguration" in old and "NotificationConfiguration" not in new:
        nothing: Properties = {"NotificationConfiguration": {}}
        context.call("s3", "PutBucketNotificationConfiguration", {"Bucket": physical_id, **nothing})
    if "VersioningConfiguration" in old and "VersioningConfiguration" not in new:
        # A bucket that has kept versions can only stop to.
        suspended = {"VersioningConfiguration": {"Status": "Suspended"}}
        context.call("s3", "PutBucketVersioning", {"Bucket": physical_id, **suspended})
    _configure(context, physical_id, new)
    return _made(context, physical_id)


def _delete_bucket(context: Context, physical_id: str, properties: Properties) -> None:
    context.gone_is_fine("s3", "DeleteBucket", {"Bucket": physical_id}, "NoSuchBucket")


def _find_policy(context: Context, properties: Properties) -> None:
    bucket = properties["Bucket"]
    if context.found("s3", "GetBucketPolicy", {"Bucket": bucket}, bucket):
        # AWS's sentence, observed by many.
        raise ResourceFailed(f"The bucket policy already exists on bucket {bucket}.")


def _put_policy(context: Context, properties: Properties) -> Made:
    document = properties["PolicyDocument"]
    text = document if isinstance(document, str) else json.dumps(document)
    context.call("s3", "PutBucketPolicy", {"Bucket": properties["Bucket"], "Policy": text})
    return Made(properties["Bucket"])


def _update_policy(context: Context, physical_id: str, old: Properties, new: Properties) -> Made:
    return _put_policy(context, new)


def _delete_policy(context: Context, physical_id: str, properties: Properties) -> None:
    context.gone_is_fine("s3", "DeleteBucketPolicy", {"Bucket": physical_id}, "NoSuchBucket")


TYPES = [
    ResourceType(
        "AWS::S3::Bucket",
        {
            **enforced(
                "BucketName", "Tags", "VersioningConfiguration", "NotificationConfiguration"
            ),
            **stored(
                "BucketEncryption",
                "PublicAccessBlockConfiguration",
                "OwnershipControls",
                "CorsConfiguration",
                "LifecycleConfiguration",
            ),
            **ignored(
                "AccessControl",
                "LoggingConfiguration",
                "IntelligentTieringConfigurations",
                "InventoryConfigurations",
                "MetricsConfigurations",
                "ObjectLockEnabled",
                "AccelerateConfiguration",
            ),
        },
        _create_bucket,
        _delete_bucket,
        update=_update_bucket,
        replace_on=frozenset({"BucketName"}),
        named_by=("BucketName",),
        find=_find_bucket,
    ),
    ResourceType(
        "AWS::S3::BucketPolicy",
        {**enforced("Bucket"), **stored("PolicyDocument")},
        _put_policy,
        _delete_policy,
        update=_update_policy,
        replace_on=frozenset({"Bucket"}),
        find=_find_policy,
    ),
]
