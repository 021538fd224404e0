"""Glue: deletions and updates, which moto lacks."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import json
from typing import Any

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
        given = {**self._get_param("JobUpdate"), "Name": name}
        before, job = recreate(backend.create_job, backend.jobs, name, given)
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
        given = {
            "CatalogId": before.catalog_id,
            "ConnectionInput": {**self._get_param("ConnectionInput"), "Name": name},
        }
        _, connection = recreate(backend.create_connection, backend.connections, name, given)
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
