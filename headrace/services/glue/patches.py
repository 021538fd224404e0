"""Glue: partitions are stored as rows, UpdateTable checks the table's version, Iceberg tables have metadata.

Expressions of clients match in bounded time; connections and federated databases are shown whole.

Classifiers, deletions and updates, which moto lacks, are here too.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportMissingTypeStubs=false
# pyright: reportPrivateUsage=false, reportUnknownLambdaType=false

from __future__ import annotations

import functools
import json
from types import ModuleType
from typing import Any

from headrace.aws.calls.operation import operation_model
from headrace.core.patterns import (
    MatchingBudget,
    MatchTooLong,
    PatternRefused,
    glob_matches,
    java_pattern,
)
from headrace.moto.current_cloud import CURRENT
from headrace.moto.patching import assign, recreate
from headrace.moto.storage.dictionaries import DictRows, KeptDict
from headrace.moto.storage.stored_names import stored_as
from headrace.services.glue import iceberg_tables

# Documented: API_GetPartitions. How many parsed expressions are kept; moto keeps all.
_MOST_PREDICATE_CHARACTERS = 2048
_MOST_PREDICATES = 256


def match_partitions_in_time(utils: ModuleType) -> None:
    """Match LIKE by wildcards instead of regular expressions, and bound the expressions."""
    like: Any = utils._Like

    def evaluate(self: Any, part_keys: Any, part_input: Any) -> bool:
        kind = str(self.ident.type_(part_keys))
        if kind in ("bigint", "int", "smallint", "tinyint"):
            raise _glue_refusal("Integral data type doesn't support operation 'LIKE'")
        if kind in ("date", "decimal", "timestamp"):
            raise _glue_refusal(f"{kind.capitalize()} data type doesn't support operation 'LIKE'")
        text = self.ident.eval(part_keys, part_input)
        pattern = str(utils._cast("string", self.literal))
        return glob_matches(pattern, str(text), any_run="%", any_one="_")

    like.eval = evaluate
    cache: Any = utils._PARTITION_FILTER_EXPRESSION_CACHE
    parse: Any = cache.get

    def parse_within_bounds(expression: str | None) -> Any:
        if expression is not None and len(expression) > _MOST_PREDICATE_CHARACTERS:
            raise _glue_refusal("Expression is longer than 2048 characters")
        if len(cache._cache) >= _MOST_PREDICATES:
            cache._cache.clear()
        try:
            return parse(expression)
        except RecursionError:
            raise _glue_refusal(f"Unsupported expression '{expression}'") from None

    cache.get = parse_within_bounds


def _glue_refusal(message: str) -> Exception:
    from moto.glue.exceptions import InvalidInputException

    return InvalidInputException("GetPartitions", message)


def match_tables_in_time(models: ModuleType) -> None:
    """Match the names of tables in bounded time."""
    backend: Any = models.GlueBackend
    get_tables: Any = backend.get_tables

    @functools.wraps(get_tables)
    def get_tables_in_time(self: Any, database_name: str, expression: str | None) -> Any:
        tables = get_tables(self, database_name, None)
        if not expression:
            return tables
        # As in moto: a star matches anything, and the expression matches the start of a name.
        text = expression.replace(".*", "*").replace("*", ".*")
        try:
            java_pattern(text)  # so that the reason quotes the client's text
            pattern = java_pattern(f"(?:{text}).*")
            budget = MatchingBudget()
            return [table for table in tables if pattern.matches(table.name, budget)]
        except (PatternRefused, MatchTooLong) as error:
            raise _glue_refusal(f"Expression cannot be used: {error or 'too complex'}") from error

    backend.get_tables = get_tables_in_time


# Observed by others on AWS: Iceberg, Spark and Hive report it.
_CONCURRENT = "Update table failed due to concurrent modifications."


@stored_as("glue_partition_rows")
class PartitionRows(DictRows):
    """The partitions of a table."""

    service = "glue"


def patch(module: Any) -> None:
    """Replace methods of moto's models."""
    table = module.FakeTable
    init = table.__init__

    @functools.wraps(init)
    def with_rows(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        self.partitions = KeptDict(PartitionRows())

    table.__init__ = with_rows


def show_connections(module: Any) -> None:
    """Show what moto keeps of connections and of federated databases, and does not show.

    Secrets are not shown: of the ways of authentication, the members of the answer's shape are.
    """
    connection, database = module.FakeConnection.as_dict, module.FakeDatabase.as_dict

    @functools.wraps(connection)
    def show_connection(self: Any, *args: Any, **named: Any) -> dict[str, Any]:
        kept = self.connection_input
        more = {name: kept.get(name) for name in ("ConnectionType", "MatchCriteria")}
        ways = _of_shape(
            operation_model("glue", "GetConnection").output_shape,
            {
                "Connection": {
                    "AuthenticationConfiguration": kept.get("AuthenticationConfiguration")
                }
            },
        )
        return {**connection(self, *args, **named), **more, **ways["Connection"]}

    @functools.wraps(database)
    def show_database(self: Any) -> dict[str, Any]:
        return {**database(self), "FederatedDatabase": self.input.get("FederatedDatabase")}

    module.FakeConnection.as_dict = show_connection
    module.FakeDatabase.as_dict = show_database


def _of_shape(shape: Any, value: Any) -> Any:
    """Return the members of a structure that its shape has."""
    if not isinstance(value, dict) or shape.type_name != "structure":
        return value
    return {
        name: _of_shape(shape.members[name], one)
        for name, one in value.items()
        if name in shape.members
    }


def patch_responses(module: Any) -> None:
    """Replace methods of moto's responses."""
    create, update = module.GlueResponse.create_table, module.GlueResponse.update_table

    @functools.wraps(create)
    def create_table(self: Any) -> Any:
        from moto.core.responses import EmptyResult
        from moto.glue.exceptions import TableAlreadyExistsException

        parameters = self.parameters
        if not (parameters.get("OpenTableFormatInput") or {}).get("IcebergInput"):
            return create(self)
        backend, database = self.glue_backend, parameters["DatabaseName"]
        if iceberg_tables.name_of(parameters) in backend.get_database(database).tables:
            raise TableAlreadyExistsException
        table = iceberg_tables.table_input_of(parameters, self.current_account, self.region)
        backend.create_table(database, table["Name"], table, parameters["OpenTableFormatInput"])
        return EmptyResult()

    @functools.wraps(update)
    def update_table(self: Any) -> Any:
        """Update a table if its version is `VersionId`; with `SkipArchive` the old version is not kept."""
        from moto.core.exceptions import JsonRESTError

        request = self.parameters
        name = request["TableInput"]["Name"]
        table = self.glue_backend.get_table(request["DatabaseName"], name)
        before = table._current_version
        if request.get("VersionId") not in (None, str(before)):
            raise JsonRESTError("ConcurrentModificationException", _CONCURRENT)
        answer = update(self)
        if request.get("SkipArchive"):
            table.versions.pop(str(before), None)
        return answer

    module.GlueResponse.create_table = create_table
    module.GlueResponse.update_table = update_table


def allow_deletions(module: Any) -> None:
    """Allow deletions of connections."""

    def delete_connection(self: Any) -> str:
        self.glue_backend.connections.pop(self._get_param("ConnectionName"), None)
        return json.dumps({})

    module.GlueResponse.delete_connection = delete_connection


def allow_updates(module: Any) -> None:
    """Allow updates of jobs, crawlers, triggers, connections and registries."""
    from moto.core.responses import ActionResult, EmptyResult
    from moto.core.utils import utcnow

    response = module.GlueResponse

    def update_job(self: Any) -> ActionResult:
        # Documented: a member that JobUpdate omits is removed, or gets its default.
        backend, name = self.glue_backend, self._get_param("JobName")
        backend.get_job(name)
        parameters = {**self._get_param("JobUpdate"), "Name": name}
        before, job = recreate(backend.create_job, backend.jobs, name, parameters)
        job.created_on, job.job_runs = before.created_on, before.job_runs
        return ActionResult({"JobName": name})

    def update_crawler(self: Any) -> EmptyResult:
        crawler = self.glue_backend.get_crawler(self._get_param("Name"))
        assign(crawler, self.parameters, leave=("name",))
        crawler.version += 1
        crawler.last_updated = utcnow()
        return EmptyResult()

    def update_trigger(self: Any) -> ActionResult:
        # Documented: TriggerUpdate replaces the whole trigger.
        trigger = self.glue_backend.get_trigger(self._get_param("Name"))
        trigger_update = self._get_param("TriggerUpdate")
        predicate = trigger_update.get("Predicate")
        trigger.predicate = module.Predicate(predicate) if predicate else None
        trigger.actions = [module.Action(action) for action in trigger_update.get("Actions") or []]
        trigger.schedule = trigger_update.get("Schedule")
        trigger.description = trigger_update.get("Description")
        trigger.event_batching_condition = trigger_update.get("EventBatchingCondition")
        return ActionResult({"Trigger": trigger.as_dict()})

    def update_connection(self: Any) -> EmptyResult:
        backend, name = self.glue_backend, self._get_param("Name")
        before = backend.get_connection(self._get_param("CatalogId"), name, None)
        values = {
            "CatalogId": before.catalog_id,
            "ConnectionInput": {**self._get_param("ConnectionInput"), "Name": name},
        }
        _, connection = recreate(backend.create_connection, backend.connections, name, values)
        connection.created_time = before.created_time
        return EmptyResult()

    def update_registry(self: Any) -> ActionResult:
        registry_id = self._get_param("RegistryId")
        name = registry_id.get("RegistryName") or registry_id["RegistryArn"].rpartition("/")[2]
        registry = self.glue_backend.registries.get(name)
        arn = registry_id.get("RegistryArn")
        if registry is None or arn not in (None, registry.registry_arn):
            which = f"RegistryArn: {arn}" if arn else f"RegistryName: {name}"
            raise module.EntityNotFoundException(f"Registry is not found. {which}")
        registry.description, registry.updated_time = self._get_param("Description"), utcnow()
        return ActionResult({"RegistryName": name, "RegistryArn": registry.registry_arn})

    for update in (update_job, update_crawler, update_trigger, update_connection, update_registry):
        setattr(response, update.__name__, update)


def allow_lone_conditions(module: Any) -> None:
    """Let a trigger's predicate leave out Logical, which it needs only with several conditions (documented)."""
    predicate = module.Predicate
    init = predicate.__init__

    @functools.wraps(init)
    def with_logical(self: Any, inputs: dict[str, Any]) -> None:
        init(self, {"Logical": "AND", **inputs})

    predicate.__init__ = with_logical


# --- classifiers ---------------------------------------------------------------------------------

_CLASSIFICATIONS = {"JsonClassifier": "json", "XMLClassifier": "xml"}
_CLASSIFIERS = ("GrokClassifier", "XMLClassifier", "JsonClassifier", "CsvClassifier")


def add_classifiers(module: Any) -> None:
    """Add the calls for classifiers; no crawler here looks at them.

    The form of the refusals is that of Glue's other resources (assumed).
    """
    for call in (
        create_classifier, get_classifier, get_classifiers, update_classifier, delete_classifier,
    ):  # fmt: skip
        setattr(module.GlueResponse, call.__name__, call)


def _classifiers(self: Any) -> dict[str, dict[str, Any]]:
    # State that was stored before has none.
    return vars(self.glue_backend).setdefault("classifiers", {})


def _find_classifier(self: Any, name: str) -> dict[str, Any]:
    from moto.glue.exceptions import EntityNotFoundException

    if name not in _classifiers(self):
        raise EntityNotFoundException(f"Classifier {name} not found.")
    return _classifiers(self)[name]


def _read_classifier(self: Any) -> tuple[str, dict[str, Any]]:
    """Return the kind of classifier that a request describes, and its members."""
    kinds = [(kind, value) for kind, value in self.parameters.items() if kind in _CLASSIFIERS]
    if len(kinds) != 1:
        raise _refuse_kind()
    return kinds[0][0], dict(kinds[0][1])


def _refuse_kind() -> Exception:
    from moto.glue.exceptions import InvalidInputException

    return InvalidInputException("", "Exactly one kind of classifier must be specified.")


def create_classifier(self: Any) -> Any:
    """CreateClassifier."""
    from moto.core.responses import EmptyResult
    from moto.glue.exceptions import AlreadyExistsException

    kind, members = _read_classifier(self)
    if members["Name"] in _classifiers(self):
        raise AlreadyExistsException("Classifier")
    now_s = CURRENT.clock.now_ms() / 1000
    if kind in _CLASSIFICATIONS:
        members.setdefault("Classification", _CLASSIFICATIONS[kind])
    _classifiers(self)[members["Name"]] = {
        kind: {**members, "CreationTime": now_s, "LastUpdated": now_s, "Version": 1}
    }
    return EmptyResult()


def get_classifier(self: Any) -> Any:
    """GetClassifier."""
    from moto.core.responses import ActionResult

    return ActionResult({"Classifier": _find_classifier(self, self._get_param("Name"))})


def get_classifiers(self: Any) -> Any:
    """GetClassifiers."""
    from moto.core.responses import ActionResult

    return ActionResult({"Classifiers": [*_classifiers(self).values()]})


def update_classifier(self: Any) -> Any:
    """UpdateClassifier."""
    from moto.core.responses import EmptyResult

    kind, members = _read_classifier(self)
    before = _find_classifier(self, members["Name"])
    if kind not in before:
        raise _refuse_kind()
    before[kind].update(members)
    before[kind].update(
        LastUpdated=CURRENT.clock.now_ms() / 1000, Version=before[kind]["Version"] + 1
    )
    return EmptyResult()


def delete_classifier(self: Any) -> Any:
    """DeleteClassifier."""
    from moto.core.responses import EmptyResult

    _find_classifier(self, self._get_param("Name"))
    del _classifiers(self)[self._get_param("Name")]
    return EmptyResult()
