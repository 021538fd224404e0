"""S3 buckets and their policies."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from headrace.aws.calls.operation import operation_model
from headrace.core.arn import URL_SUFFIXES, partition_of
from headrace.core.values import get_list
from headrace.moto.without_effect import rows_of
from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceResult,
    ResourceType,
    boolean,
    enforced,
    ignored,
    stored,
    tag_list,
)
from headrace.services.cloudformation.resources.declaration import (
    Call,
    Converter,
    DeclaredType,
    Values,
)
from headrace.services.cloudformation.resources.reading import ReadCall, ReadingRules


def _create_bucket(context: Context, properties: Properties) -> ResourceResult:
    name = properties.get("BucketName") or context.generate_name(63, lower=True)
    params: dict[str, Any] = {"Bucket": name}
    if context.region != "us-east-1":
        params["CreateBucketConfiguration"] = {"LocationConstraint": context.region}
    if boolean(properties.get("ObjectLockEnabled")):
        params["ObjectLockEnabledForBucket"] = True
    context.call("s3", "CreateBucket", params)
    context.note_made(name)
    _configure(context, name, properties)
    return bucket_made(context, name)


def _find_bucket(context: Context, properties: Properties) -> str | None:
    # Not even for its owner: "creating" it again succeeds, and a rollback would then delete it.
    name = properties.get("BucketName")
    return context.find_identifier("s3", "HeadBucket", {"Bucket": name}, name)


def bucket_made(context: Context, name: str) -> ResourceResult:
    """Return what a stack stores of a bucket: its name and attributes."""
    partition = partition_of(context.region)
    suffix = URL_SUFFIXES[partition]
    return ResourceResult(
        name,
        {
            "Arn": f"arn:{partition}:s3:::{name}",
            "DomainName": f"{name}.s3.{suffix}",
            "RegionalDomainName": f"{name}.s3.{context.region}.{suffix}",
            "DualStackDomainName": f"{name}.s3.dualstack.{context.region}.{suffix}",
            "WebsiteURL": f"http://{name}.s3-website-{context.region}.{suffix}",
        },
    )


def _configure(context: Context, name: str, properties: Properties) -> None:
    for property_name, (operation, member, _) in _CONFIGURED.items():
        if property_name in properties:
            member_value = in_the_apis_form(property_name, name, properties[property_name])
            context.call("s3", operation, {"Bucket": name, member: member_value})
    for metrics in get_list(properties, "MetricsConfigurations"):
        configuration = {
            "Id": metrics["Id"],
            **({"Filter": {"Prefix": metrics["Prefix"]}} if "Prefix" in metrics else {}),
        }
        params = {"Bucket": name, "Id": metrics["Id"], "MetricsConfiguration": configuration}
        context.call("s3", "PutBucketMetricsConfiguration", params)
    tags = tag_list(properties, context)
    if tags:
        context.call("s3", "PutBucketTagging", {"Bucket": name, "Tagging": {"TagSet": tags}})


def _encryption(bucket: str, configuration: Properties) -> Properties:
    """Return a bucket's default encryption in the API's form."""
    return {
        "Rules": [
            {
                "ApplyServerSideEncryptionByDefault": rule.get("ServerSideEncryptionByDefault", {}),
                "BucketKeyEnabled": rule.get("BucketKeyEnabled", False),
                **{name: rule[name] for name in ("BlockedEncryptionTypes",) if name in rule},
            }
            for rule in configuration["ServerSideEncryptionConfiguration"]
        ]
    }


def _as_it_is(bucket: str, value: Any) -> Any:
    return value


def _cors(bucket: str, configuration: Properties) -> Properties:
    """Return CORS rules in the API's form, which has other names for three members."""
    names = {"Id": "ID", "ExposedHeaders": "ExposeHeaders", "MaxAge": "MaxAgeSeconds"}
    rules = configuration["CorsRules"]
    return {
        "CORSRules": [
            {names.get(name, name): value for name, value in rule.items()} for rule in rules
        ]
    }


def _notifications(configuration: Properties) -> Properties:
    """Return a notification configuration in the API's form, with a list of events instead of a single one."""
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
                    **_filter(one),
                }
                for one in configuration[name]
            ]
    bridge = configuration.get("EventBridgeConfiguration")
    if bridge is not None and str(bridge.get("EventBridgeEnabled", True)).lower() == "true":
        turned["EventBridgeConfiguration"] = {}
    return turned


def _filter(one: Properties) -> Properties:
    rules = _filter_rules(one)
    return {"Filter": {"Key": {"FilterRules": rules}}} if rules else {}


def _filter_rules(one: Properties) -> list[Properties]:
    key = one.get("Filter", {}).get("S3Key", {})
    return [{"Name": rule["Name"], "Value": rule["Value"]} for rule in key.get("Rules", [])]


def _lifecycle(rule: Properties) -> Properties:
    """Return a lifecycle rule in the API's form, with lists and objects instead of single properties."""
    turned: Properties = {"Status": rule["Status"], "Filter": _lifecycle_filter(rule)}
    if rule.get("Id"):
        turned["ID"] = rule["Id"]
    expiration = _rename_properties(
        rule,
        ExpirationInDays="Days",
        ExpirationDate="Date",
        ExpiredObjectDeleteMarker="ExpiredObjectDeleteMarker",
    )
    if expiration:
        turned["Expiration"] = expiration
    if "AbortIncompleteMultipartUpload" in rule:
        turned["AbortIncompleteMultipartUpload"] = rule["AbortIncompleteMultipartUpload"]
    noncurrent = dict(rule.get("NoncurrentVersionExpiration") or {})
    if "NoncurrentVersionExpirationInDays" in rule:
        noncurrent["NoncurrentDays"] = rule["NoncurrentVersionExpirationInDays"]
    if noncurrent:
        turned["NoncurrentVersionExpiration"] = noncurrent
    for name, single, days in (
        ("Transitions", "Transition", "Days"),
        ("NoncurrentVersionTransitions", "NoncurrentVersionTransition", "NoncurrentDays"),
    ):
        entries = [*rule.get(name, []), *([rule[single]] if single in rule else [])]
        if entries:
            turned[name] = [
                _rename_properties(
                    entry,
                    StorageClass="StorageClass",
                    TransitionInDays=days,
                    TransitionDate="Date",
                    NewerNoncurrentVersions="NewerNoncurrentVersions",
                )
                for entry in entries
            ]
    return turned


def _lifecycle_filter(rule: Properties) -> Properties:
    tags = [{"Key": tag["Key"], "Value": tag["Value"]} for tag in get_list(rule, "TagFilters")]
    sizes = _rename_properties(
        rule,
        ObjectSizeGreaterThan="ObjectSizeGreaterThan",
        ObjectSizeLessThan="ObjectSizeLessThan",
    )
    prefix = {"Prefix": rule["Prefix"]} if "Prefix" in rule else {}
    if len(tags) + len(sizes) + len(prefix) > 1:
        return {"And": {**prefix, **sizes, **({"Tags": tags} if tags else {})}}
    if tags:
        return {"Tag": tags[0]}
    return {**prefix, **sizes} or {"Prefix": ""}


def _rename_properties(properties: Properties, **names: str) -> Properties:
    """Return those of the named properties that are given, under the API's names."""
    return {api_name: properties[name] for name, api_name in names.items() if name in properties}


def _website(bucket: str, configuration: Properties) -> Properties:
    """Return a website's configuration in the API's form."""
    turned = _rename_properties(configuration, RedirectAllRequestsTo="RedirectAllRequestsTo")
    if "IndexDocument" in configuration:
        turned["IndexDocument"] = {"Suffix": configuration["IndexDocument"]}
    if "ErrorDocument" in configuration:
        turned["ErrorDocument"] = {"Key": configuration["ErrorDocument"]}
    if configuration.get("RoutingRules"):
        turned["RoutingRules"] = [
            _rename_properties(rule, RedirectRule="Redirect", RoutingRuleCondition="Condition")
            for rule in configuration["RoutingRules"]
        ]
    return turned


def _logging(bucket: str, configuration: Properties) -> Properties:
    """Return a bucket's logging in the API's form; without a destination, a bucket logs to itself."""
    target: Properties = {
        "TargetBucket": configuration.get("DestinationBucketName") or bucket,
        "TargetPrefix": configuration.get("LogFilePrefix") or "",
    }
    if "TargetObjectKeyFormat" in configuration:
        target["TargetObjectKeyFormat"] = configuration["TargetObjectKeyFormat"]
    return {"LoggingEnabled": target}


def _convert_canned_acl(bucket: str, name: str) -> str:
    """Return a canned ACL's name in the API's form: `LogDeliveryWrite` is `log-delivery-write`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


_Turn = Callable[[str, Any], Any]
# Property -> operation, member, and the function that converts it to the API's form; in the order of the calls.
_CONFIGURED: dict[str, tuple[str, str, _Turn]] = {
    "BucketEncryption": ("PutBucketEncryption", "ServerSideEncryptionConfiguration", _encryption),
    "VersioningConfiguration": ("PutBucketVersioning", "VersioningConfiguration", _as_it_is),
    "PublicAccessBlockConfiguration": (
        "PutPublicAccessBlock",
        "PublicAccessBlockConfiguration",
        _as_it_is,
    ),
    "OwnershipControls": ("PutBucketOwnershipControls", "OwnershipControls", _as_it_is),
    "AccessControl": ("PutBucketAcl", "ACL", _convert_canned_acl),
    "CorsConfiguration": ("PutBucketCors", "CORSConfiguration", _cors),
    "ObjectLockConfiguration": (
        "PutObjectLockConfiguration",
        "ObjectLockConfiguration",
        _as_it_is,
    ),
    "LoggingConfiguration": ("PutBucketLogging", "BucketLoggingStatus", _logging),
    "WebsiteConfiguration": ("PutBucketWebsite", "WebsiteConfiguration", _website),
    "AccelerateConfiguration": (
        "PutBucketAccelerateConfiguration",
        "AccelerateConfiguration",
        lambda _, given: {"Status": given["AccelerationStatus"]},
    ),
    "LifecycleConfiguration": (
        "PutBucketLifecycleConfiguration",
        "LifecycleConfiguration",
        lambda _, given: {"Rules": [_lifecycle(rule) for rule in given["Rules"]]},
    ),
    "NotificationConfiguration": (
        "PutBucketNotificationConfiguration",
        "NotificationConfiguration",
        lambda _, given: _notifications(given),
    ),
}


def in_the_apis_form(name: str, bucket: str, value: Any) -> Any:
    """Return a bucket's property in S3's form."""
    operation, member, turn = _CONFIGURED[name]
    shape: Any = operation_model("s3", operation).input_shape
    # Templates may write numbers and booleans as text.
    return Converter().value(turn(bucket, value), shape.members[member], name)


_REMOVE = {
    "LifecycleConfiguration": "DeleteBucketLifecycle",
    "CorsConfiguration": "DeleteBucketCors",
    "PublicAccessBlockConfiguration": "DeletePublicAccessBlock",
    "BucketEncryption": "DeleteBucketEncryption",
    "OwnershipControls": "DeleteBucketOwnershipControls",
    "WebsiteConfiguration": "DeleteBucketWebsite",
}


def _update_bucket(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> ResourceResult:
    for name, operation in _REMOVE.items():
        if name in old and name not in new:
            context.call("s3", operation, {"Bucket": physical_id})
    if "NotificationConfiguration" in old and "NotificationConfiguration" not in new:
        nothing: Properties = {"NotificationConfiguration": {}}
        context.call("s3", "PutBucketNotificationConfiguration", {"Bucket": physical_id, **nothing})
    if "VersioningConfiguration" in old and "VersioningConfiguration" not in new:
        # Versioning that was on can only be suspended.
        suspended = {"VersioningConfiguration": {"Status": "Suspended"}}
        context.call("s3", "PutBucketVersioning", {"Bucket": physical_id, **suspended})
    _configure(context, physical_id, new)
    return bucket_made(context, physical_id)


def _delete_bucket(context: Context, physical_id: str, properties: Properties) -> None:
    context.delete_if_exists("s3", "DeleteBucket", {"Bucket": physical_id}, "NoSuchBucket")


# Properties without effect, and the operations that S3's API has for them.
_WITHOUT_EFFECT = {
    "AccelerateConfiguration": "PutBucketAccelerateConfiguration",
    "AnalyticsConfigurations": "PutBucketAnalyticsConfiguration",
    "IntelligentTieringConfigurations": "PutBucketIntelligentTieringConfiguration",
    "InventoryConfigurations": "PutBucketInventoryConfiguration",
    "LoggingConfiguration": "PutBucketLogging",
    "MetricsConfigurations": "PutBucketMetricsConfiguration",
    "ReplicationConfiguration": "PutBucketReplication",
}


def _remark(properties: Properties) -> dict[str, str]:
    return {
        name: row.sentence
        for name, operation in _WITHOUT_EFFECT.items()
        if properties.get(name)
        for row in rows_of("s3", operation)
    }


TYPES = [
    ResourceType(
        "AWS::S3::Bucket",
        {
            **enforced(
                "BucketName",
                "Tags",
                "VersioningConfiguration",
                "NotificationConfiguration",
                "ObjectLockEnabled",
                "ObjectLockConfiguration",
            ),
            **stored(
                "BucketEncryption",
                "PublicAccessBlockConfiguration",
                "OwnershipControls",
                "CorsConfiguration",
                "LifecycleConfiguration",
                "AccessControl",
                "LoggingConfiguration",
                "MetricsConfigurations",
                "AccelerateConfiguration",
                "WebsiteConfiguration",
            ),
            **ignored(
                "AnalyticsConfigurations",
                "IntelligentTieringConfigurations",
                "InventoryConfigurations",
                "MetadataTableConfiguration",
                "ReplicationConfiguration",
            ),
        },
        _create_bucket,
        _delete_bucket,
        update=_update_bucket,
        replace_on=frozenset({"BucketName"}),
        named_by=("BucketName",),
        find=_find_bucket,
        remark=_remark,
    ),
]


def _check_policy(values: Values) -> bool:
    """Raise ResourceFailed when the bucket has a policy already."""
    bucket = values.get("Bucket")
    if values.context.find_identifier("s3", "GetBucketPolicy", {"Bucket": bucket}, bucket):
        # AWS's sentence, observed by many.
        raise ResourceFailed(f"The bucket policy already exists on bucket {bucket}.")
    return False


DECLARED = [
    DeclaredType(
        "AWS::S3::BucketPolicy",
        "s3",
        create=[Call("PutBucketPolicy")],
        id="Bucket",
        exists=_check_policy,
        update=[Call("PutBucketPolicy")],
        delete=[Call("DeleteBucketPolicy", {"Bucket": "@id"})],
        names={"PolicyDocument": "Policy"},
        enforced=frozenset({"Bucket"}),
    ),
]


# Property -> the call that reads it, its place in the answer, and the error code that means that it is not set.
_READ = {
    "VersioningConfiguration": ("GetBucketVersioning", ".", ""),
    "PublicAccessBlockConfiguration": (
        "GetPublicAccessBlock",
        "PublicAccessBlockConfiguration",
        "NoSuchPublicAccessBlockConfiguration",
    ),
    "OwnershipControls": (
        "GetBucketOwnershipControls",
        "OwnershipControls",
        "OwnershipControlsNotFoundError",
    ),
    "CorsConfiguration": ("GetBucketCors", ".", "NoSuchCORSConfiguration"),
    "ObjectLockConfiguration": (
        "GetObjectLockConfiguration",
        "ObjectLockConfiguration",
        "ObjectLockConfigurationNotFoundError",
    ),
    "LoggingConfiguration": ("GetBucketLogging", ".", ""),
    "WebsiteConfiguration": ("GetBucketWebsite", ".", "NoSuchWebsiteConfiguration"),
    "AccelerateConfiguration": ("GetBucketAccelerateConfiguration", ".", ""),
    "LifecycleConfiguration": (
        "GetBucketLifecycleConfiguration",
        ".",
        "NoSuchLifecycleConfiguration",
    ),
    "NotificationConfiguration": ("GetBucketNotificationConfiguration", ".", ""),
}


_LISTS = ("TopicConfigurations", "QueueConfigurations", "LambdaFunctionConfigurations")


def _convert_property(name: str, bucket: str, property_value: Any) -> Any:
    """Return a property in the API's form."""
    turned = in_the_apis_form(name, bucket, property_value)
    if name != "NotificationConfiguration":
        return turned
    # A notification of another kind is also a difference.
    return {name: turned.get(name, []) for name in _LISTS} | turned


def _setting(name: str) -> ReadCall:
    operation, path, unset = _READ[name]
    return ReadCall(
        operation,
        {"Bucket": "@id"},
        properties={name: path},
        unset=(unset,) if unset else (),
        turn=lambda bucket, property_value: _convert_property(name, bucket, property_value),
    )


def _shown_encryption(rules: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a bucket's encryption in a template's form."""
    default = "ApplyServerSideEncryptionByDefault"
    renamed = [
        {("ServerSideEncryptionByDefault" if k == default else k): v for k, v in rule.items()}
        for rule in rules
    ]
    return {"ServerSideEncryptionConfiguration": renamed}


READINGS = (
    ReadingRules(
        "AWS::S3::Bucket",
        "s3",
        (
            ReadCall("GetBucketLocation", {"Bucket": "@id"}, properties={"BucketName": "@id"}),
            ReadCall(
                "GetBucketEncryption",
                {"Bucket": "@id"},
                "ServerSideEncryptionConfiguration.Rules",
                {"BucketEncryption": _shown_encryption},
                unset=("ServerSideEncryptionConfigurationNotFoundError",),
            ),
            *(_setting(name) for name in _READ),
        ),
        made=bucket_made,
    ),
    ReadingRules(
        "AWS::S3::BucketPolicy",
        "s3",
        (
            ReadCall(
                "GetBucketPolicy",
                {"Bucket": "@id"},
                properties={"Bucket": "@id", "PolicyDocument": "Policy"},
            ),
        ),
    ),
)
