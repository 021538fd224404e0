"""What requests to Lambda, Kinesis, CloudFormation, EMR and Glue need.

Lambda and Kinesis: qualifiers, layers, code in S3, mappings without a resource; shard iterators, consumers by name.

Sources: docs.aws.amazon.com/lambda/latest/dg/lambda-api-permissions-ref.html, the Service Authorization Reference's
pages of both, and the references of CreateFunction and CreateStream.

CloudFormation, EMR and Glue: stacks by name, clusters by id, and tables together with their database and catalog.

Source: list_awscloudformation.html, list_amazonelasticmapreduce.html and list_awsglue.html of the Service
Authorization Reference; docs.aws.amazon.com/glue/latest/dg/glue-specifying-resource-arns.html.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from headrace.core.arn import bucket_arn, make_arn
from headrace.permissions.requests.table import Request, RequiredPermission, prefix_named

RequiredPermissions = tuple[RequiredPermission, ...] | None


def cloudformation_permissions(request: Request) -> RequiredPermissions:
    """A stack that does not exist yet, or whose id is unknown, has `*` for its id."""
    name = request.text("StackName")
    change_set = request.text("ChangeSetName")
    if not name and change_set.startswith("arn:"):
        name = request.find("cloudformation", "change set", change_set) or ""
    prefix = prefix_named("cloudformation")
    assert prefix is not None
    action = prefix.actions.get(request.operation.lower())
    if action is None or "stack" not in (*action.required, *action.optional) or not name:
        return None
    if not name.startswith("arn:"):
        stack_arn = request.find("cloudformation", "stack", name)
        name = stack_arn or request.arn("cloudformation", f"stack/{name}/*")
    names = {
        "RoleARN": "cloudformation:rolearn",
        "TemplateURL": "cloudformation:templateurl",
        "ChangeSetName": "cloudformation:changesetname",
        "StackPolicyURL": "cloudformation:stackpolicyurl",
    }
    context: dict[str, tuple[str, ...]] = {
        key: (request.text(parameter_name),)
        for parameter_name, key in names.items()
        if request.text(parameter_name)
    }
    types = cast("list[str]", request.parameters.get("ResourceTypes") or [])
    if types:
        context["cloudformation:resourcetypes"] = tuple(types)
    return (RequiredPermission(f"cloudformation:{action.name}", (name,), context),)


def emr_permissions(request: Request) -> RequiredPermissions:
    """Tags are on clusters, studios and so on, whose ids tell their type; steps may name a role to run as."""
    action = f"elasticmapreduce:{request.operation}"
    tagged = request.text("ResourceId")
    if tagged:
        kind = (
            "studio"
            if tagged.startswith("es-")
            else "editor"
            if tagged.startswith("e-")
            else "cluster"
        )
        return (RequiredPermission(action, (request.arn("elasticmapreduce", f"{kind}/{tagged}"),)),)
    role = request.text("ExecutionRoleArn")
    cluster = request.text("JobFlowId") or request.text("ClusterId")
    if role and cluster:
        context = {"elasticmapreduce:executionrolearn": (role,)}
        return (
            RequiredPermission(
                action, (request.arn("elasticmapreduce", f"cluster/{cluster}"),), context
            ),
        )
    return None


def glue_permissions(request: Request) -> RequiredPermissions:
    """An action on a table needs permission on the catalog, the database and the table, each by its ARN."""
    prefix = prefix_named("glue")
    assert prefix is not None
    action = prefix.actions.get(request.operation.lower())
    if action is None:
        return None
    kinds = (*action.required, *action.optional)
    if not {"catalog", "database", "table", "rootcatalog"} & set(kinds):
        schema = _schemas(request)
        return (RequiredPermission(f"glue:{action.name}", schema),) if schema else None
    database, table = _database(request, kinds), _table(request, kinds)
    account = request.text("CatalogId") or request.account
    owner = account if account.isdigit() else request.account
    base = make_arn("glue", request.region, owner, "")[:-1]
    row = [f"{base}:catalog"] if {"catalog", "rootcatalog"} & set(kinds) else []
    if "database" in kinds:
        row.append(f"{base}:database/{database or '*'}")
    if "table" in kinds:
        row.append(f"{base}:table/{database or '*'}/{table or '*'}")
    return (RequiredPermission(f"glue:{action.name}", tuple(row)),)


def _database(request: Request, kinds: tuple[str, ...]) -> str:
    database_name = request.text("DatabaseName") or _member(request, "DatabaseInput", "Name")
    return database_name or (
        "" if "table" in kinds and "TableName" in request.parameters else request.text("Name")
    )


def _table(request: Request, kinds: tuple[str, ...]) -> str:
    own = request.text("Name") if request.text("DatabaseName") else ""
    return request.text("TableName") or _member(request, "TableInput", "Name") or own


def _schemas(request: Request) -> tuple[str, ...]:
    """Return the registry and the schema that SchemaId or RegistryId names."""
    row: list[str] = []
    for parameter in ("SchemaId", "RegistryId"):
        for member in ("SchemaArn", "RegistryArn"):
            parameter_schema = _member(request, parameter, member)
            row += [parameter_schema] if parameter_schema else []
        registry, schema = (
            _member(request, parameter, "RegistryName"),
            _member(request, parameter, "SchemaName"),
        )
        row += [request.arn("glue", f"registry/{registry}")] if registry else []
        row += (
            [request.arn("glue", f"schema/{registry or 'default-registry'}/{schema}")]
            if schema
            else []
        )
    return tuple(row)


def _member(request: Request, parameter: str, name: str) -> str:
    parameter_value: Any = request.parameters.get(parameter)
    if not isinstance(parameter_value, Mapping):
        return ""
    value = cast("Mapping[str, Any]", parameter_value).get(name)
    return value if isinstance(value, str) else ""


RULES: dict[str, Callable[[Request], RequiredPermissions]] = {
    "cloudformation": cloudformation_permissions,
    "emr": emr_permissions,
    "glue": glue_permissions,
}


_INVOKES = ("Invoke", "InvokeWithResponseStream")
# Operations whose `FunctionName` is not the resource.
_ON_MAPPING = {
    "GetEventSourceMapping", "UpdateEventSourceMapping", "DeleteEventSourceMapping",
    "CreateEventSourceMapping", "ListEventSourceMappings",
}  # fmt: skip


def function_arn(request: Request, name: str, qualifier: str = "") -> str:
    """Return the ARN of a function from any form of its name (name, `account:function:name`, ARN; with a qualifier)."""
    account, region, bare = request.account, request.region, name
    if name.startswith("arn:"):
        parts = name.split(":", 6)
        account, region, bare = parts[4], parts[3], parts[-1]
    elif ":function:" in name:
        account, bare = name.split(":function:", 1)
    name, _, own = bare.partition(":")
    named = qualifier or own
    return make_arn("lambda", region, account, f"function:{name}{':' if named else ''}{named}")


def lambda_permissions(request: Request) -> tuple[RequiredPermission, ...] | None:
    """Return the permissions that a Lambda operation needs; None when the table is sufficient."""
    operation = request.operation
    if operation == "GetLayerVersionByArn":
        return (RequiredPermission("lambda:GetLayerVersion", (request.text("Arn"),)),)
    if operation in _ON_MAPPING:
        return (_build_mapping_permission(request),)
    name = request.text("FunctionName")
    if not name or operation == "ListDurableExecutionsByFunction":
        return None
    arn = function_arn(request, name, request.text("Qualifier"))
    if operation in _INVOKES:
        return (RequiredPermission("lambda:InvokeFunction", (arn,)),)
    context = {
        key: (request.text(parameter),)
        for parameter, key in _CONDITIONS.get(operation, {}).items()
        if request.text(parameter)
    }
    return (RequiredPermission(f"lambda:{operation}", (arn,), context), *_with_function(request))


_CONDITIONS = {
    "AddPermission": {"Principal": "lambda:principal", "FunctionUrlAuthType": "lambda:functionurlauthtype"},
    "CreateFunctionUrlConfig": {"AuthType": "lambda:functionurlauthtype"},
    "UpdateFunctionUrlConfig": {"AuthType": "lambda:functionurlauthtype"},
    "PutFunctionCodeSigningConfig": {"CodeSigningConfigArn": "lambda:codesigningconfigarn"},
}  # fmt: skip


def _build_mapping_permission(request: Request) -> RequiredPermission:
    """Creating and listing mappings has no resource, other operations a mapping; its function is a condition key."""
    uuid, name = request.text("UUID"), request.text("FunctionName")
    resource = request.arn("lambda", f"event-source-mapping:{uuid}") if uuid else "*"
    function = (
        function_arn(request, name) if name else request.find("lambda", "mapping", uuid) or ""
    )
    context = {"lambda:functionarn": (function,)} if function else {}
    return RequiredPermission(f"lambda:{request.operation}", (resource,), context)


def _with_function(request: Request) -> Iterator[RequiredPermission]:
    """Yield the permissions for a function's code and layers, which are read with the caller's permissions."""
    layers = cast("list[str]", request.parameters.get("Layers") or [])
    for layer in layers:
        yield RequiredPermission("lambda:GetLayerVersion", (layer,))
    code: Any = (
        request.parameters
        if request.operation == "UpdateFunctionCode"
        else request.parameters.get("Code")
    )
    if request.operation in ("CreateFunction", "UpdateFunctionCode") and isinstance(code, Mapping):
        named = cast("Mapping[str, Any]", code)
        if named.get("S3Bucket"):
            action = "s3:GetObjectVersion" if named.get("S3ObjectVersion") else "s3:GetObject"
            yield RequiredPermission(
                action,
                (bucket_arn(request.region, f"{named['S3Bucket']}/{named.get('S3Key', '')}"),),
            )


# --- Kinesis --------------------------------------------------------------------------------------

# The table has no resource for these actions; policies in AWS's examples name the stream (Application Auto Scaling's
# guide for Kinesis), which a policy with `*` matches too.
_ON_STREAM = {
    "UpdateShardCount", "UpdateStreamMode", "EnableEnhancedMonitoring", "DisableEnhancedMonitoring",
}  # fmt: skip
_BY_CONSUMER = {"DescribeStreamConsumer", "DeregisterStreamConsumer"}


def kinesis_permissions(request: Request) -> tuple[RequiredPermission, ...] | None:
    """Return the permissions that a Kinesis operation needs; None when the table is sufficient."""
    operation, action = request.operation, f"kinesis:{request.operation}"
    stream = request.text("StreamARN") or _stream_named(request)
    if operation == "GetRecords" and not stream:
        stream = request.find("kinesis", "iterator", request.text("ShardIterator")) or ""
    if operation == "ListShards" and not stream:
        stream = request.find("kinesis", "token", request.text("NextToken")) or ""
    if operation in _BY_CONSUMER and not request.text("ConsumerARN"):
        consumer = f"{stream}/consumer/{request.text('ConsumerName')}"
        return (
            RequiredPermission(
                action, (request.find("kinesis", "consumer", consumer) or f"{consumer}:*",)
            ),
        )
    if operation in ("CreateQueue", "CreateChannel"):
        kind = operation.removeprefix("Create")
        # The id, which ends the ARN, does not exist yet. data-delivery-iam.html names the stream for CreateChannel; the
        # service authorization reference names the channel, as AWS's policy checks do.
        created = request.arn("kinesis", f"{kind.lower()}/*")
        return (
            RequiredPermission(action, (created,)),
            RequiredPermission(f"kinesis:AssociateStreamsWith{kind}", _list_streams(request)),
        )
    if operation in ("StartStreamEncryption", "StopStreamEncryption"):
        return _encryption_permissions(request, action, stream)
    if operation in ("GetRecords", "ListShards", "SubscribeToShard") or operation in _ON_STREAM:
        resource = request.text("ConsumerARN") or stream
        return (RequiredPermission(action, (resource,)),) if resource else None
    return None


def _list_streams(request: Request) -> tuple[str, ...]:
    """Return the ARNs of the streams that a new queue or channel is to read."""
    listed: Any = request.parameters.get("StreamConfigurationList")
    entries = cast("list[Any]", listed) if isinstance(listed, list) else []
    mappings = [cast("Mapping[str, Any]", one) for one in entries if isinstance(one, Mapping)]
    return tuple(str(one["StreamARN"]) for one in mappings if one.get("StreamARN")) or ("*",)


def _stream_named(request: Request) -> str:
    name = request.text("StreamName")
    return request.arn("kinesis", f"stream/{name}") if name else ""


def _encryption_permissions(
    request: Request, action: str, stream: str
) -> tuple[RequiredPermission, ...]:
    """Return the permissions that encryption needs: the action on the stream, and on the key."""
    key = key_arn(request, request.text("KeyId"))
    return (RequiredPermission(action, (stream, *((key,) if key else ()))),)


def key_arn(request: Request, key_id: str) -> str:
    """Return the ARN of a key from its id, ARN or alias; empty for an unknown alias."""
    if key_id.startswith("arn:") and ":key/" in key_id:
        return key_id
    alias = key_id.rsplit(":", 1)[-1]
    if alias.startswith("alias/"):
        return request.find("kms", "alias", alias) or ""
    return request.arn("kms", f"key/{key_id}") if key_id else ""
