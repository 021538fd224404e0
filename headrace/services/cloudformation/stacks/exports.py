"""Exports: the outputs that other stacks of the account and region may import."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from typing import Any

from headrace.services.cloudformation.errors import ResourceFailed, TemplateError
from headrace.services.cloudformation.state import Stack
from headrace.services.cloudformation.store import Stacks
from headrace.services.cloudformation.template.intrinsics import Scope, evaluate
from headrace.services.cloudformation.template.template import Template
from headrace.services.cloudformation.template.values import UNKNOWN, Allowance

_MISSING = "No export named {} found."


class Exports:
    """The exports of all stacks. Thread-safe."""

    def __init__(self, stacks: Stacks) -> None:
        self._stacks = stacks

    def all(self, account: str, region: str) -> dict[str, tuple[Stack, str]]:
        """Return every export: name -> (stack, value)."""
        return {
            output["ExportName"]: (stack, output["OutputValue"])
            for stack in self._stacks.all(account, region)
            if stack.exists
            for output in stack.outputs
            if "ExportName" in output
        }

    def missing(
        self, stack: Stack, template: Template, names: set[str], scope: Scope
    ) -> str | None:
        """Return the failure of a template that imports a name that no stack exports, or None.

        Only resources in `names` count. The stack fails before any resource is begun, and has only its own events
        (observed: widdix/aws-s3-virusscan#39).
        """
        if "ImportValue" not in template.body:
            return None
        return _missing_import(template, names, scope, self.all(stack.account, stack.region))

    def read(self, stack: Stack, name: str) -> str:
        """Return an export's value and note that `stack` uses it. Raises ResourceFailed."""
        export = self.all(stack.account, stack.region).get(name)
        if export is None:
            raise ResourceFailed(_MISSING.format(name))
        with self._stacks.lock:
            if name not in stack.imports:
                stack.imports.append(name)
        return export[1]

    def importers(self, stack: Stack, export_name: str) -> list[Stack]:
        """Return the existing stacks that import an export of `stack`."""
        return [
            other
            for other in self._stacks.all(stack.account, stack.region)
            if other.exists and other.stack_id != stack.stack_id and export_name in other.imports
        ]

    def check(self, stack: Stack, outputs: list[dict[str, str]]) -> None:
        """Raise ResourceFailed when new outputs claim another stack's export, or change an export in use."""
        new: dict[str, str] = {}
        for output in (output for output in outputs if "ExportName" in output):
            if output["ExportName"] in new:  # assumed: like another stack's export
                raise ResourceFailed(
                    f"Export with name {output['ExportName']} is already exported by stack {stack.name}."
                )
            new[output["ExportName"]] = output["OutputValue"]
        present = self.all(stack.account, stack.region) if new else {}
        for name, (owner, _) in present.items():
            if name in new and owner.stack_id != stack.stack_id:
                raise ResourceFailed(
                    f"Export with name {name} is already exported by stack {owner.name}."
                )
        for output in stack.outputs:
            name = output.get("ExportName")
            if name is None or new.get(name) == output["OutputValue"]:
                continue
            users = self.importers(stack, name)
            if users:
                shown = ", ".join(sorted(user.name for user in users))
                verb = "update" if name in new else "delete"
                raise ResourceFailed(f"Cannot {verb} export {name} as it is in use by {shown}.")


def _missing_import(
    template: Template, names: set[str], scope: Scope, exported: Container[str]
) -> str | None:
    missing: list[str] = []

    def imported(name: str) -> Any:
        if name not in exported:
            missing.append(name)
        return UNKNOWN

    def unknown(*_: str) -> str:
        return UNKNOWN

    # The names of imports depend on no resource, so they are known now.
    before = replace(
        scope,
        names=scope.names | dict.fromkeys(template.resources, UNKNOWN),
        attribute=unknown,
        imported=imported,
        dynamic=unknown,
        allowance=Allowance(),
    )
    for name in template.resources:
        if name in names:
            try:
                evaluate(template.resources[name].get("Properties", {}), before)
            except (TemplateError, ResourceFailed):
                continue  # The resource itself fails with this error when it is created.
    return _MISSING.format(missing[0]) if missing else None
