"""Glue: classifiers, deletions and updates, which moto lacks."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import functools
import json
from typing import Any

from headrace.moto.current_cloud import CURRENT
from headrace.moto.updating import assign, recreate


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
        if registry is None:
            raise module.EntityNotFoundException(f"Registry is not found. RegistryName: {name}")
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
