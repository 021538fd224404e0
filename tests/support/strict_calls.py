"""Calls of botocore's model with one member that a table calls *ignored*: what --strict has to refuse."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError
from botocore.model import ListShape, MapShape, Shape, StructureShape

from headrace.aws.calls.operation import operation_model
from headrace.aws.protocols.owned_service import with_newer
from headrace.services.iam.answers import moto_tables
from tests.support.cloud import InProcessCloud

_ARN = "arn:aws:iam::000000000000:role/a-role-of-mine"
# What the model has a pattern for, by the end of the member's name.
_SOUND = {
    "capacityproviderarn": "arn:aws:lambda:us-east-1:000000000000:capacity-provider:one",
    "runtimearn": "arn:aws:lambda:us-east-1:000000000000:runtime/other",
    "arn": _ARN,
    "role": _ARN,
    "typename": "AWS::SNS::Topic",
    "publisherid": "0123456789abcdef",
    "publicversionnumber": "1.0.0",
    "resource": "arn:aws:lambda:us-east-1:000000000000:function:f",
    "handler": "app.handler",
    "layername": "layer",
    "authenticationcode1": "123456",
    "authenticationcode2": "123456",
    "tokencode": "123456",
    "owneraccount": "123456789012",
    "applicationid": "00abcdefghijkl01",
    "jobrunid": "00abcdefghijkl02",
    "code": {"ZipFile": b"PK"},
    "content": {"ZipFile": b"PK"},
    "queuetimeoutminutes": 20,
}  # fmt: skip


def _value(shape: Shape, name: str, path: list[str]) -> Any:
    """Return a value for a member: with what stands at `path` inside, and with what is required there."""
    if isinstance(shape, StructureShape):
        if not path and isinstance(_SOUND.get(name.lower()), dict):
            return _SOUND[name.lower()]
        inner = path[0].removesuffix("[]") if path else ""
        wanted = {*shape.required_members, *([inner] if inner else [])}
        if not wanted and not path:
            wanted = set(list(shape.members)[:1])
        return {
            member: _value(shape.members[member], member, path[1:] if member == inner else [])
            for member in shape.members
            if member in wanted
        }
    if isinstance(shape, ListShape):
        return [_value(shape.member, name, path)] * max(1, shape.metadata.get("min", 1))
    if isinstance(shape, MapShape):
        return {"a": _value(shape.value, name, path)}
    return _scalar(shape, name)


def _scalar(shape: Shape, name: str) -> Any:
    choices: Any = getattr(shape, "enum", None)
    if choices:
        return choices[0]
    kind = shape.type_name
    for end, sound in _SOUND.items():
        if name.lower().endswith(end) and not isinstance(sound, dict) and kind != "boolean":
            return sound
    least: Any = shape.metadata.get("min", 1)
    if kind == "string":
        return "a" * max(3, least)
    if kind in ("integer", "long"):
        return max(1, least)
    if kind == "boolean":
        return True
    if kind == "timestamp":
        return 1_800_000_000
    return b"x" if kind == "blob" else 1.5


def _params(service: str, operation: str, path: str) -> dict[str, Any]:
    shape: Any = operation_model(service, operation).input_shape
    made: dict[str, Any] = _value(shape, "", path.split("."))
    return made


def ignored_of(cloud: InProcessCloud) -> list[tuple[str, str, str]]:
    """Return service, operation and path of all that is ignored; tokens, which are let through, are not."""
    tables: dict[str, Any] = {
        api.name: with_newer(api.name, api.by_name(), api.fidelity)
        for api in cloud.cloud.gateway.owned.values()
    }
    return [
        (service, operation, path)
        for service, table in sorted({**tables, **moto_tables()}.items())
        for operation, levels in sorted(table.items())
        for path, level in sorted(levels.items())
        if level == "ignored"
        and not path.endswith(("ClientToken", "ClientRequestToken"))
        # botocore signs such a call only with awscrt.
        and (operation, path) != ("PutEvents", "EndpointId")
        # botocore makes a PreSignedUrl of it.
        and (operation, path) != ("CreateDBCluster", "SourceRegion")
        # Unsigned, which is a case of its own.
        and operation != "SetUserMFAPreference"
    ]


def not_refused(cloud: InProcessCloud, rows: list[tuple[str, str, str]]) -> list[str]:
    """Return what a call with each row's member gets, where it is not the refusal that names the member."""
    wrong: list[str] = []
    for service, operation, path in rows:
        client = cloud.client(service)
        names = client.meta.method_to_api_mapping
        method = next(method for method, name in names.items() if name == operation)
        try:
            getattr(client, method)(**_params(service, operation, path))
        except ClientError as error:
            answer: Any = error.response
            sentence = answer["Error"].get("Message", "")
            is_head = service == "s3" and operation.startswith("Head")  # its answer has no body
            if is_head and answer["ResponseMetadata"]["HTTPStatusCode"] == 501:
                continue
            said, _, named = sentence.partition(" that it would ignore: ")
            if said.startswith("headrace --strict refuses") and path in named.split(", "):
                continue
            wrong.append(f"{service}:{operation}.{path}: {error}")
        else:
            wrong.append(f"{service}:{operation}.{path}: is let through")
    return wrong
