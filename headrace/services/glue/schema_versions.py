"""Glue's schema registry: a version is compared with those before it, and the calls that moto lacks.

Avro is compared, by Avro's own library: a version that its schema's compatibility does not allow gets a number and the
status FAILURE, and is not the latest (observed by others: streamthoughts/jikkou issue 593). A JSON Schema is checked
for being one. Versions in JSON and in Protocol Buffers are not compared.
The sentences of errors that AWS documents by their codes alone are assumed.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false

from __future__ import annotations

import functools
import itertools
import json
import math
import time
import warnings
from collections.abc import Iterable
from typing import Any

from headrace.core.values import BadMarker, page_of
from headrace.moto.current_cloud import utcnow

_AVAILABLE, _FAILURE = "AVAILABLE", "FAILURE"
_MOST_COMPARISONS = 20_000  # under a second; a schema of 170,000 characters can ask for millions
_MOST_S = 2.0  # processor time, of one version's comparisons with all others
# The values of an enumeration times its characters: jsonschema compares those of several types each with each.
_MOST_OF_ENUM = 50_000_000


class SchemaTooLarge(Exception):
    """The comparison of two schemas takes more steps than are allowed."""


def compare_versions(module: Any) -> None:
    """Let RegisterSchemaVersion refuse what is no schema, and fail what its compatibility does not allow."""
    backend = module.GlueBackend
    register, create = backend.register_schema_version, backend.create_schema

    @functools.wraps(create)
    def create_schema(
        self: Any, registry_id: Any, schema_name: Any, data_format: str, compatibility: Any,
        schema_definition: str, *more: Any, **named: Any,
    ) -> Any:  # fmt: skip
        _refuse_invalid(data_format, schema_definition)
        return create(
            self, registry_id, schema_name, data_format, compatibility, schema_definition, *more, **named
        )  # fmt: skip

    @functools.wraps(register)
    def register_schema_version(self: Any, schema_id: Any, schema_definition: str) -> Any:
        schema = _schema_of(self, schema_id)
        _refuse_invalid(schema.data_format, schema_definition)
        latest_before, known = schema.latest_schema_version, {*schema.schema_versions}
        others = [
            version.schema_definition
            for version in schema.schema_versions.values()
            if version.schema_version_status == _AVAILABLE
        ]
        is_allowed = schema.data_format != "AVRO" or _is_allowed(
            schema.compatibility, schema_definition, others
        )
        answer = register(self, schema_id, schema_definition)
        if answer["SchemaVersionId"] in known:
            return answer  # a version of the same text, whatever became of it
        version = schema.schema_versions[answer["SchemaVersionId"]]
        if is_allowed:
            schema.latest_schema_version = version.version_number
        else:
            version.schema_version_status = _FAILURE
            schema.latest_schema_version = latest_before
        return version.as_dict()

    find = backend.get_schema_by_definition

    @functools.wraps(find)
    def get_schema_by_definition(self: Any, schema_id: Any, schema_definition: str) -> Any:
        # Documented: a definition is made canonical before it is looked for. Clients of other languages have other
        # spaces, and register a schema again when it is not found.
        schema = _schema_of(self, schema_id)
        wanted = _canonical(schema.data_format, schema_definition)
        texts = (version.schema_definition for version in schema.schema_versions.values())
        same = (text for text in texts if _canonical(schema.data_format, text) == wanted)
        return find(self, schema_id, next(same, schema_definition))

    backend.create_schema, backend.register_schema_version = create_schema, register_schema_version
    backend.get_schema_by_definition = get_schema_by_definition


def _canonical(data_format: str, definition: str) -> Any:
    """Return what definitions that differ in their spaces alone have in common."""
    try:
        return definition if data_format == "PROTOBUF" else json.loads(definition)
    except (ValueError, RecursionError):
        return definition


def _is_allowed(compatibility: str, definition: str, others: list[str]) -> bool:
    """Say whether a version may follow others, oldest first. Raises AwsError when they are too large to compare."""
    direction, _, reach = compatibility.partition("_")
    if direction in ("NONE", "DISABLED"):
        return True
    # State of an earlier headrace can hold what is no schema.
    schemas = (other for other in reversed(others) if not schema_error("AVRO", other))
    end_s = time.thread_time() + _MOST_S
    try:
        return all(
            (direction == "FORWARD" or can_read(reader=definition, writer=other, end_s=end_s))
            and (direction == "BACKWARD" or can_read(reader=other, writer=definition, end_s=end_s))
            for other in (schemas if reach == "ALL" else itertools.islice(schemas, 1))
        )
    except SchemaTooLarge:
        raise _refuse(
            "headrace does not compare schemas of so many types: it takes more steps than it allows"
        ) from None


def can_read(*, reader: str, writer: str, end_s: float = math.inf) -> bool:
    """Say whether records that are written with one Avro schema can be read with another.

    Raises SchemaTooLarge, also when the thread's processor time reaches `end_s`.
    """
    from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType

    class Bounded(ReaderWriterCompatibilityChecker):
        comparisons = 0

        def get_compatibility(self, *args: Any, **named: Any) -> Any:
            self.comparisons += 1
            if self.comparisons > _MOST_COMPARISONS or time.thread_time() > end_s:
                raise SchemaTooLarge
            return super().get_compatibility(*args, **named)

    result = Bounded().get_compatibility(_parse_avro(reader), _parse_avro(writer))
    return result.compatibility is SchemaCompatibilityType.compatible


def _parse_avro(definition: str) -> Any:
    """Raises ValueError, AvroException, RecursionError and whatever else a text that is no schema meets."""
    import avro.errors
    import avro.schema

    # It warns of logical types that it does not know; Avro says that they are ignored.
    warnings.filterwarnings("ignore", category=avro.errors.IgnoredLogicalType)
    return avro.schema.parse(definition)


def schema_error(data_format: str, definition: str) -> str:
    """Return why a text is no schema of a format, in one line; empty when it is one, and for Protocol Buffers."""
    import jsonschema.exceptions
    import jsonschema.validators
    from avro.errors import AvroException

    try:
        if data_format == "AVRO":
            _parse_avro(definition)
        elif data_format == "JSON":
            schema = json.loads(definition)
            if _size_of_enums(schema) > _MOST_OF_ENUM:
                return (
                    "headrace does not compare so many values of an enum that are of several types"
                )
            # Documented: Draft-04, Draft-06 and Draft-07.
            validator: Any = jsonschema.validators.validator_for(
                schema, default=jsonschema.validators.Draft7Validator
            )
            validator.check_schema(schema)
    except jsonschema.exceptions.SchemaError as error:
        return error.message[:200]
    except RecursionError:
        return "the schema is nested too deeply"
    except (
        AvroException, ValueError, TypeError, LookupError, AttributeError, ArithmeticError,
    ) as error:  # fmt: skip
        return str(error).partition("\n")[0][:200] or type(error).__name__
    return ""


def _size_of_enums(schema: Any) -> int:
    """Return the sum over enumerations, but those of texts, of their values times their characters."""
    if isinstance(schema, list):
        return sum(map(_size_of_enums, schema))
    if not isinstance(schema, dict):
        return 0
    size = sum(map(_size_of_enums, schema.values()))
    values = schema.get("enum")
    if isinstance(values, list) and not all(isinstance(value, str) for value in values):
        size += len(values) * len(json.dumps(values))
    return size


def _refuse_invalid(data_format: str, definition: str) -> None:
    error = schema_error(data_format, definition)
    if error:
        from moto.glue.exceptions import InvalidSchemaDefinitionException

        raise InvalidSchemaDefinitionException(data_format, ValueError(error))


def _refuse(message: str) -> Exception:
    from moto.glue.exceptions import GlueClientError

    return GlueClientError("InvalidInputException", message)


def take_own_arns(models: Any) -> None:
    """Find a registry or a schema by its whole ARN; moto takes the last parts of any ARN for names."""
    from moto.glue import glue_schema_registry_utils as checks
    from moto.glue.exceptions import RegistryNotFoundException, SchemaNotFoundException

    find_registry, find_schema = checks.validate_registry_id, checks.validate_schema_id

    def validate_registry_id(registry_id: Any, registries: Any) -> str:
        name, arn = find_registry(registry_id, registries), (registry_id or {}).get("RegistryArn")
        if arn and name in registries and registries[name].registry_arn != arn:
            raise RegistryNotFoundException("Registry", "RegistryArn", arn)
        return name

    def validate_schema_id(schema_id: Any, registries: Any) -> tuple[str, str, str | None]:
        registry, name, arn = find_schema(schema_id, registries)
        if arn and registries[registry].schemas[name].schema_arn != arn:
            raise SchemaNotFoundException("", "", arn)
        return registry, name, arn

    for own in (validate_registry_id, validate_schema_id):
        for module in (checks, models):
            setattr(module, own.__name__, own)


def _schema_of(backend: Any, schema_id: Any) -> Any:
    from moto.glue.glue_schema_registry_utils import validate_schema_id

    registry, name, _ = validate_schema_id(schema_id or {}, backend.registries)
    return backend.registries[registry].schemas[name]


def _version_of(self: Any) -> Any:
    """Return the version that a request names, by its id or by its schema and number."""
    backend, parameters = self.glue_backend, self.parameters
    answer = backend.get_schema_version(
        *(parameters.get(name) for name in ("SchemaId", "SchemaVersionId", "SchemaVersionNumber"))
    )
    arn = {"SchemaArn": answer["SchemaArn"]}
    return _schema_of(backend, arn).schema_versions[answer["SchemaVersionId"]]


# --- the calls that moto lacks -------------------------------------------------------------------


def add_calls(module: Any) -> None:
    """Add the calls of the registry that moto lacks, but for GetSchemaVersionsDiff."""
    for call in (
        check_schema_version_validity, list_schemas, list_schema_versions, delete_schema_versions,
        query_schema_version_metadata, remove_schema_version_metadata,
    ):  # fmt: skip
        setattr(module.GlueResponse, call.__name__, call)


def check_schema_version_validity(self: Any) -> Any:
    """CheckSchemaVersionValidity: whether a text is a schema; it is compared with no other."""
    from moto.core.responses import ActionResult

    data_format = self._get_param("DataFormat")
    if data_format == "PROTOBUF":
        raise _refuse("headrace does not parse Protocol Buffers: the schema is not checked")
    error = schema_error(data_format, self._get_param("SchemaDefinition"))
    return ActionResult({"Valid": not error, **({"Error": error} if error else {})})


def _page(self: Any, member: str, items: Iterable[dict[str, Any]]) -> Any:
    """Answer a page of a list; a token is where the next begins. Documented: at most and by default 25 a page."""
    from moto.core.responses import ActionResult

    most = min(self._get_param("MaxResults") or 25, 100)
    try:
        page, following = page_of(items, self._get_param("NextToken") or None, most)
    except BadMarker:
        raise _refuse("Invalid NextToken") from None
    return ActionResult({member: page, **({"NextToken": following} if following else {})})


def list_schemas(self: Any) -> Any:
    """ListSchemas, of one registry or of all."""
    from moto.glue.glue_schema_registry_utils import validate_registry_id

    registries = self.glue_backend.registries
    of = self._get_param("RegistryId")
    only = validate_registry_id(of, registries) if of else None
    schemas = [
        schema
        for name, registry in registries.items()
        if only in (None, name)
        for schema in registry.schemas.values()
    ]
    return _page(
        self,
        "Schemas",
        (
            {
                "RegistryName": schema.registry_name,
                "SchemaName": schema.schema_name,
                "SchemaArn": schema.schema_arn,
                "SchemaStatus": schema.schema_status,
                "CreatedTime": str(schema.created_time),
                "UpdatedTime": str(schema.updated_time),
                **({"Description": schema.description} if schema.description else {}),
            }
            for schema in schemas
        ),
    )


def list_schema_versions(self: Any) -> Any:
    """ListSchemaVersions; deleted ones are not shown (documented)."""
    schema = _schema_of(self.glue_backend, self._get_param("SchemaId"))
    return _page(
        self,
        "Schemas",
        (
            {
                "SchemaArn": version.schema_arn,
                "SchemaVersionId": version.schema_version_id,
                "VersionNumber": version.version_number,
                "Status": version.schema_version_status,
                "CreatedTime": str(version.created_time),
            }
            for version in schema.schema_versions.values()
        ),
    )


def delete_schema_versions(self: Any) -> Any:
    """DeleteSchemaVersions: `Versions` is a number or a range.

    Documented: the checkpoint is not deleted while a compatibility mode other than NONE needs it; without versions that
    could be deleted nothing is; a version that cannot be is named in the answer.
    """
    from moto.core.responses import ActionResult

    schema = _schema_of(self.glue_backend, self._get_param("SchemaId"))
    first, _, last = self._get_param("Versions").partition("-")
    numbers = {
        version.version_number: key
        for key, version in schema.schema_versions.items()
        if int(first) <= version.version_number <= int(last or first)
    }
    errors: list[dict[str, Any]] = []
    for number, key in numbers.items():
        if number == schema.schema_checkpoint and schema.compatibility != "NONE":
            reason = "The checkpoint version of a schema cannot be deleted."
            errors.append(
                {
                    "VersionNumber": number,
                    "ErrorDetails": {"ErrorCode": "InvalidInputException", "ErrorMessage": reason},
                }
            )
        else:
            del schema.schema_versions[key]
    available = [
        version.version_number
        for version in schema.schema_versions.values()
        if version.schema_version_status == _AVAILABLE
    ]
    schema.latest_schema_version = max(available, default=schema.schema_checkpoint)
    schema.updated_time = utcnow()
    return ActionResult({"SchemaVersionErrors": errors})


def query_schema_version_metadata(self: Any) -> Any:
    """QuerySchemaVersionMetadata: the values of each key, the newest first, as far as `MetadataList` asks for them."""
    from moto.core.responses import ActionResult

    version = _version_of(self)
    asked = [
        (pair.get("MetadataKey"), pair.get("MetadataValue"))
        for pair in self._get_param("MetadataList") or []
    ]
    shown: dict[str, Any] = {}
    for key, values in version.metadata.items():
        of_key = [
            value
            for value in values
            if not asked
            or any(name in (None, key) and text in (None, value) for name, text in asked)
        ]
        if of_key:
            newest, *others = reversed(of_key)
            shown[key] = {
                "MetadataValue": newest,
                "CreatedTime": str(version.created_time),
                **({"OtherMetadataValueList": [{"MetadataValue": one} for one in others]} if others else {}),
            }  # fmt: skip
    return ActionResult({"MetadataInfoMap": shown, "SchemaVersionId": version.schema_version_id})


def remove_schema_version_metadata(self: Any) -> Any:
    """RemoveSchemaVersionMetadata, of one key and value."""
    from moto.core.responses import ActionResult
    from moto.glue.exceptions import EntityNotFoundException

    version = _version_of(self)
    pair = self._get_param("MetadataKeyValue")
    key, value = pair.get("MetadataKey"), pair.get("MetadataValue")
    values = version.metadata.get(key, [])
    if value not in values:
        raise EntityNotFoundException(
            f"Metadata is not found. MetadataKey: {key}, MetadataValue: {value}"
        )
    values.remove(value)
    if not values:
        del version.metadata[key]
    schema = _schema_of(self.glue_backend, {"SchemaArn": version.schema_arn})
    return ActionResult(
        {
            "SchemaArn": version.schema_arn,
            "SchemaName": version.schema_name,
            "RegistryName": version.registry_name,
            "LatestVersion": version.version_number == schema.latest_schema_version,
            "VersionNumber": version.version_number,
            "SchemaVersionId": version.schema_version_id,
            "MetadataKey": key,
            "MetadataValue": value,
        }
    )
