"""Exports: the outputs that other stacks of the account and region may import."""

from __future__ import annotations

from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.state import Stack
from headrace.services.cloudformation.store import Stacks


class Exports:
    """The exports of all stacks. Thread-safe."""

    def __init__(self, stacks: Stacks) -> None:
        self._stacks = stacks

    def all(self, account: str, region: str) -> dict[str, tuple[Stack, str]]:
        """Return export name to (stack, value)."""
        return {
            output["ExportName"]: (stack, output["OutputValue"])
            for stack in self._stacks.all(account, region)
            if stack.exists
            for output in stack.outputs
            if "ExportName" in output
        }

    def read(self, stack: Stack, name: str) -> str:
        """Return an export's value and note that `stack` uses it. Raises ResourceFailed."""
        found = self.all(stack.account, stack.region).get(name)
        if found is None:
            raise ResourceFailed(f"No export named {name} found.")
        with self._stacks.lock:
            if name not in stack.imports:
                stack.imports.append(name)
        return found[1]

    def importers(self, stack: Stack, export_name: str) -> list[Stack]:
        """Return the stacks that exist and use an export of `stack`."""
        return [
            other
            for other in self._stacks.all(stack.account, stack.region)
            if other.exists and other.stack_id != stack.stack_id and export_name in other.imports
        ]

    def check(self, stack: Stack, outputs: list[dict[str, str]]) -> None:
        """Raise ResourceFailed when new outputs take or change an export that others have or use."""
        new: dict[str, str] = {}
        for output in (output for output in outputs if "ExportName" in output):
            if output["ExportName"] in new:  # assumed to read as that of another stack
                raise ResourceFailed(
                    f"Export with name {output['ExportName']} is already exported by stack {stack.name}."
                )
            new[output["ExportName"]] = output["OutputValue"]
        for name, (owner, _) in self.all(stack.account, stack.region).items():
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
