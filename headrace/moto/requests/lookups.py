"""Finds what a request names that is not there, lacks, or says unreadably, when moto fails at it; returns AWS's error.

moto looks many things up without asking whether they are there. Codes: the not-found error of the operation's model
that fits the member best; EC2 and Auto Scaling have none, and their codes are documented (EC2: errors-overview.html;
Auto Scaling: ValidationError). Sentences are assumed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from json import JSONDecodeError
from typing import Any, cast

from botocore.model import ListShape, OperationModel, Shape, StructureShape

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import operation_model
from headrace.aws.protocols.validate import sentence

_NOT_FOUND = re.compile("NotFound|NoSuch|DoesNotExist|NotExist")
_NO_NAME = re.compile("NotFound|NoSuch|DoesNotExist|NotExists?|Fault|Exception|Error")
_REFUSALS = (
    *("ValidationException", "InvalidParameterException", "InvalidParameterValueException"),
    *("InvalidInputException", "InvalidRequestException", "BadRequestException", "ClientException"),
)
# Services whose error for a name of nothing is in no model.
_WITHOUT_MODEL = {
    "autoscaling": ("ValidationError", "AutoScalingGroup name not found - AutoScalingGroup '{}' not found"),
}  # fmt: skip
# EC2's codes that do not have the member's name.
_EC2_NAMES = {"Image": "AMI", "SourceImage": "AMI", "SourceSnapshot": "Snapshot"}
# Operations at which moto looks something up, gets None, and reads that.
_READS_NOTHING = frozenset(
    {
        *(("athena", "GetNamedQuery"), ("ec2", "DeleteManagedPrefixList")),
        *(("ec2", "ModifyManagedPrefixList"), ("ec2", "ReplaceNetworkAclAssociation")),
        *(("ecs", "DeleteCapacityProvider"), ("ecs", "UpdateCapacityProvider")),
        ("workspaces", "DescribeTags"),
        *(("stepfunctions", "DescribeStateMachineAlias"), ("stepfunctions", "DeleteStateMachineAlias")),
    }
)  # fmt: skip
# Members of which AWS requires one, or all, and no model says so: the first of them is named.
_NEEDED: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("apigateway", "ImportApiKeys"): ("body",),
    ("cloudtrail", "GetInsightSelectors"): ("trailName", "eventDataStore"),
    ("cloudtrail", "PutInsightSelectors"): ("insightSelectors",),
    ("dms", "ListTagsForResource"): ("resourceArn", "resourceArnList"),
    ("ec2", "AllocateHosts"): ("quantity", "assetIds"),
    ("ec2", "EnableTransitGatewayRouteTablePropagation"): ("transitGatewayAttachmentId",),
    ("ec2", "ModifySpotFleetRequest"): ("targetCapacity",),
    ("ec2", "RequestSpotInstances"): ("launchSpecification",),
    ("ecs", "PutAttributes"): ("attributes.1.member.targetId",),
    ("ecs", "RegisterContainerInstance"): ("instanceIdentityDocument",),
    ("kms", "RetireGrant"): ("grantToken", "keyId"),
    ("lex-models", "TagResource"): ("tags",),
    ("logs", "PutDeliveryDestination"): ("deliveryDestinationConfiguration",),
    ("rds", "RestoreDBInstanceFromDBSnapshot"): ("dBSnapshotIdentifier", "dBClusterSnapshotIdentifier"),
    ("route53resolver", "CreateResolverRule"): ("resolverEndpointId",),
    ("rds", "CreateDBInstanceReadReplica"): ("sourceDBInstanceIdentifier", "sourceDBClusterIdentifier"),
    ("rds", "CreateDBProxy"): ("auth",),
    ("rds", "RestoreDBClusterToPointInTime"): ("sourceDBClusterIdentifier", "sourceDbClusterResourceId"),
    ("rds", "RestoreDBInstanceToPointInTime"): ("sourceDBInstanceIdentifier", "sourceDbiResourceId"),
    ("redshift", "RestoreFromClusterSnapshot"): ("snapshotIdentifier", "snapshotArn"),
    ("resource-groups", "GetGroupConfiguration"): ("group", "groupName"),
    ("resource-groups", "PutGroupConfiguration"): ("group", "groupName"),
    ("resource-groups", "UpdateGroup"): ("group", "groupName"),
    ("s3tables", "GetTable"): ("tableArn", "tableBucketARN"),
    ("support", "ResolveCase"): ("caseId",),
    ("shield", "DescribeProtection"): ("protectionId", "resourceArn"),
    ("ssm", "GetPatchBaselineForPatchGroup"): ("operatingSystem",),
    ("workspaces", "RegisterWorkspaceDirectory"): ("directoryId",),
}  # fmt: skip
_ARN_PARTS = 6


def find_lookup_fault(
    service: str, operation: str, params: Mapping[str, Any], error: Exception
) -> AwsError | None:
    """Return the error for a thing that a request names and nobody made, or for a missing member; or None."""
    model = operation_model(service, operation)
    if isinstance(error, JSONDecodeError):
        return AwsError(_refusal_code(model), f"Invalid JSON: {error}")
    if type(error) is Exception:  # moto's own refusal, which it gives no code
        return AwsError(_refusal_code(model), str(error))
    if isinstance(error, KeyError) and error.args:
        named = _member_with(params, error.args[0])
        if named is None and str(error.args[0]).startswith("default"):  # AWS's name for one
            named = ("", str(error.args[0]))
        if named is not None:
            return _not_found(service, model, *named)
        path = _path_without(model.input_shape, params, error.args[0], "")
        if path:
            return _null(model, path)
    needed = _NEEDED.get((service, operation), ())
    given = {name.lower() for name in params}
    if needed and not any(name.lower() in given for name in needed):
        return _null(model, needed[0])
    if isinstance(error, LookupError | StopIteration | AttributeError | TypeError):
        for member, value in _texts(params):
            if member.lower().endswith("arn") and value.count(":") < _ARN_PARTS - 1:
                return AwsError(_refusal_code(model), f"Invalid ARN: {value}")
    is_group = service == "autoscaling" and isinstance(error, LookupError | StopIteration)
    # Each of a classic load balancer's operations reads it before it asks whether it is there.
    is_balancer = service == "elb" and isinstance(error, AttributeError | TypeError)
    if is_group or is_balancer or (service, operation) in _READS_NOTHING:
        for member, value in _texts(params):
            return _not_found(service, model, member, value)
    return None


def _null(model: OperationModel, path: str) -> AwsError:
    return AwsError(
        _refusal_code(model),
        sentence([f"Value null at '{path}' failed to satisfy constraint: Member must not be null"]),
    )


def _refusal_code(model: OperationModel) -> str:
    """Return the operation's code for a wrong request: its model's, or that of AWS's validation framework."""
    codes = {_code_of(shape) for shape in model.error_shapes}
    return next((code for code in _REFUSALS if code in codes), _REFUSALS[0])


def _code_of(shape: Shape) -> str:
    return str(shape.metadata.get("error", {}).get("code", shape.name))


def _not_found(service: str, model: OperationModel, member: str, value: str) -> AwsError:
    """Return the operation's error for a name of nothing."""
    about = f"{member} {model.name}".lower()

    def fitness(shape: Shape) -> int:
        kind = _NO_NAME.sub("", shape.name).lower()
        return len(kind) if kind in about else 0 if kind in ("resource", "entity", "") else -1

    shapes = [shape for shape in model.error_shapes if _NOT_FOUND.search(shape.name)]
    if shapes:
        best = max(shapes, key=fitness)
        status = int(best.metadata.get("error", {}).get("httpStatusCode", 400))
        return AwsError(_code_of(best), f"{value} does not exist.", status)
    if service == "ec2":
        kind = re.sub("Ids?$", "", member)
        kind = _EC2_NAMES.get(kind, kind)
        return AwsError(f"Invalid{kind}ID.NotFound", f"The ID '{value}' does not exist")
    code, words = _WITHOUT_MODEL.get(service, (_refusal_code(model), "{} does not exist."))
    return AwsError(code, words.format(value))


def _member_with(params: Mapping[str, Any], key: Any) -> tuple[str, str] | None:
    """Return the member whose text is a key, or the end of one, such as of an ARN; None when there is none."""
    text = str(key)
    for member, value in _texts(params):
        if text == value or (value and text.endswith((f":{value}", f"/{value}"))):
            return member, value
    return None


def _texts(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts of a request, each with the name of its member."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _texts(item, name)
    elif isinstance(value, Mapping):
        for key, item in cast("Mapping[str, Any]", value).items():
            yield from _texts(item, key)


def _path_without(shape: Any, value: Any, name: Any, path: str) -> str:
    """Return the path of a given structure that lacks its member `name`; empty when none does."""
    if isinstance(shape, ListShape) and isinstance(value, list):
        inner = (
            _path_without(shape.member, item, name, f"{path}.{number}.member")
            for number, item in enumerate(cast("list[Any]", value), 1)
        )
        return next(filter(None, inner), "")
    if not isinstance(shape, StructureShape) or not isinstance(value, Mapping):
        return ""
    mapping = cast("Mapping[str, Any]", value)
    if name in shape.members and name not in mapping:
        return f"{path}.{_lower(name)}".lstrip(".")
    paths = (
        _path_without(member, mapping.get(key), name, f"{path}.{_lower(key)}")
        for key, member in shape.members.items()
    )
    return next(filter(None, paths), "")


def _lower(name: str) -> str:
    return name[:1].lower() + name[1:]
