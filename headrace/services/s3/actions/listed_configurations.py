"""The configurations that have an Id, so that a bucket may have many: metrics, analytics, inventory, tiering.

They are checked, stored and returned, but have no effect. Sources: AWS's answers to LocalStack's
tests/aws/services/s3/test_s3.py and test_s3_api.py, recorded in 2025 (observed); API_Put... of each (documented).
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from headrace.aws.calls.errors import AwsError, malformed_xml
from headrace.aws.calls.model import operation_model
from headrace.aws.calls.operation import Action, Call, operation
from headrace.aws.shapes.s3 import InventoryConfiguration
from headrace.services.s3.backend import S3
from headrace.services.s3.errors import invalid_argument
from headrace.services.s3.limits import LISTED_CONFIGURATIONS, LISTED_CONFIGURATIONS_PAGE
from headrace.services.s3.state import NamesBucket, NamesConfiguration

_BUCKET_ARN = re.compile(r"arn:aws[a-z-]*:s3:::[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


@dataclass(frozen=True, slots=True)
class ConfigurationKind:
    """A kind of configuration that has an Id.

    Attributes:
        name: the name in PutBucket<name>Configuration and in the members.
        check: refuses values that the API model allows and AWS does not.
    """

    name: str
    check: Callable[[Any], None] = lambda _: None

    @property
    def member(self) -> str:
        """The member of inputs and outputs that holds the value."""
        return f"{self.name}Configuration"


def _check_inventory(value: InventoryConfiguration) -> None:
    target = value["Destination"]["S3BucketDestination"]
    if not _BUCKET_ARN.fullmatch(str(target.get("Bucket"))):
        raise AwsError("InvalidS3DestinationBucket", "Invalid bucket ARN.")


_KINDS = [
    ConfigurationKind("Analytics"),
    ConfigurationKind("IntelligentTiering"),
    ConfigurationKind("Inventory", _check_inventory),
    ConfigurationKind("Metrics"),
]


def _build_put(kind: ConfigurationKind) -> Action:
    name = f"PutBucket{kind.member}"

    def put(s3: S3, call: Call, request: NamesConfiguration) -> None:
        value = cast("dict[str, Any]", request)[kind.member]
        shape = cast("Any", operation_model("s3", name)).input_shape.members[kind.member]
        with s3.lock:
            bucket = s3.bucket(request["Bucket"])
            if not _is_of_model(shape, value):
                raise malformed_xml()
            if value["Id"] != request["Id"]:
                raise AwsError(
                    "IdMismatch", "Document ID does not match the specified configuration ID."
                )
            kind.check(value)
            kept: dict[str, Any] = bucket.configurations.get(kind.member, {})
            if request["Id"] not in kept and len(kept) >= LISTED_CONFIGURATIONS:
                raise AwsError(
                    "TooManyConfigurations",
                    "You are attempting to create a new configuration but have already reached the"
                    f" {LISTED_CONFIGURATIONS:,}-configuration limit.",
                )
            # This turns dates into text.
            new = json.loads(json.dumps(value, default=str))
            bucket.configurations[kind.member] = {**kept, request["Id"]: new}
            s3.save_bucket(request["Bucket"], bucket)

    return operation(name)(put)


def _build_get(kind: ConfigurationKind) -> Action:
    def get(s3: S3, call: Call, request: NamesConfiguration) -> Mapping[str, object]:
        return {kind.member: _find_configurations(s3, kind, request)}

    return operation(f"GetBucket{kind.member}")(get)


def _build_delete(kind: ConfigurationKind) -> Action:
    def delete(s3: S3, call: Call, request: NamesConfiguration) -> None:
        with s3.lock:
            _find_configurations(s3, kind, request)
            bucket = s3.bucket(request["Bucket"])
            kept: dict[str, Any] = bucket.configurations[kind.member]
            left = {name: value for name, value in kept.items() if name != request["Id"]}
            bucket.configurations[kind.member] = left
            s3.save_bucket(request["Bucket"], bucket)

    return operation(f"DeleteBucket{kind.member}")(delete)


def _build_list(kind: ConfigurationKind) -> Action:
    def list_all(s3: S3, call: Call, request: NamesBucket) -> Mapping[str, object]:
        kept: dict[str, Any] = s3.bucket(request["Bucket"]).configurations.get(kind.member, {})
        token = request.get("ContinuationToken")
        after = "" if token is None else _decode_token(token)
        names = sorted(name for name in kept if name > after)
        page = names[:LISTED_CONFIGURATIONS_PAGE]
        answer: dict[str, object] = {"IsTruncated": len(page) < len(names)}
        if token is not None:
            answer["ContinuationToken"] = token
        if page:
            answer[f"{kind.member}List"] = [kept[name] for name in page]
        if answer["IsTruncated"]:
            answer["NextContinuationToken"] = base64.b64encode(page[-1].encode()).decode()
        return answer

    return operation(f"ListBucket{kind.member}s")(list_all)


def _find_configurations(
    s3: S3, kind: ConfigurationKind, request: NamesConfiguration
) -> Mapping[str, object]:
    kept: dict[str, Any] = s3.bucket(request["Bucket"]).configurations.get(kind.member, {})
    if request["Id"] not in kept:
        raise AwsError("NoSuchConfiguration", "The specified configuration does not exist.", 404)
    return kept[request["Id"]]


def _decode_token(token: str) -> str:
    try:
        return base64.b64decode(token, validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise invalid_argument("The continuation token provided is incorrect") from error


def _is_of_model(shape: Any, value: Any) -> bool:
    """Whether a value has all members that the API model requires, and only valid enumeration values."""
    if shape.type_name == "structure":
        if not isinstance(value, dict):
            return False
        members = cast("dict[str, Any]", value)
        return all(members.get(name) is not None for name in shape.required_members) and all(
            _is_of_model(shape.members[name], one)
            for name, one in members.items()
            if name in shape.members and one is not None
        )
    if shape.type_name == "list":
        return isinstance(value, list) and all(
            _is_of_model(shape.member, one) for one in cast("list[Any]", value)
        )
    choices: list[str] | None = getattr(shape, "enum", None)
    return not choices or value in choices


LISTED: list[Action] = [
    make(kind) for kind in _KINDS for make in (_build_put, _build_get, _build_delete, _build_list)
]
