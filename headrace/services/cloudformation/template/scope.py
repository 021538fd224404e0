"""Resolves the names in a template: parameters, resources, exports of other stacks, dynamic references.

Exports: the outputs that other stacks of the account and region may import. In the scope that follows, conditions are
decided, rules are checked, and outputs are evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import URL_SUFFIXES, partition_of
from headrace.core.ports import ControlPlane
from headrace.core.values import get_list, parse_json
from headrace.services.cloudformation.errors import (
    NoSuchAttribute,
    ResourceFailed,
    TemplateError,
)
from headrace.services.cloudformation.state import Resource, Stack
from headrace.services.cloudformation.store import Stacks
from headrace.services.cloudformation.template.function_checks import (
    check_export_name,
    check_output_value,
)
from headrace.services.cloudformation.template.functions import (
    NO_VALUE,
    UNKNOWN,
    Allowance,
    output_text,
)
from headrace.services.cloudformation.template.intrinsics import (
    Scope,
    build_unresolved_error,
    evaluate,
)
from headrace.services.cloudformation.template.template import Template, conditions_in, in_order

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


@dataclass(frozen=True, slots=True)
class Lookups:
    """Reads values from outside a template: from other stacks, SSM and Secrets Manager."""

    exports: Exports
    control: ControlPlane

    def dynamic(self, stack: Stack, service: str, key: str) -> str:
        """Return the value of a dynamic reference. Raises ResourceFailed."""
        where: dict[str, Any] = {
            "account": stack.account,
            "region": stack.region,
            "acting": stack.acting,
        }
        try:
            if service in ("ssm", "ssm-secure"):
                answer = self.control.call(
                    "ssm", "GetParameter", {"Name": key, "WithDecryption": True}, **where
                )
                return str(answer["Parameter"]["Value"])
            name, _, rest = key.partition(":SecretString")
            answer = self.control.call(
                "secretsmanager", "GetSecretValue", {"SecretId": name}, **where
            )
            field = rest.strip(":").split(":")[0]
            text = str(answer["SecretString"])
            return str(parse_json(text)[field]) if field else text
        except (AwsError, KeyError, ValueError) as error:
            raise ResourceFailed(
                f"Could not resolve {{{{resolve:{service}:{key}}}}}: {error}"
            ) from error

    def ssm_parameter(self, stack: Stack, name: str) -> str:
        """Return the value of a parameter of an SSM type. Raises TemplateError."""
        try:
            answer = self.control.call(
                "ssm", "GetParameter", {"Name": name}, account=stack.account, region=stack.region
            )
        except AwsError as error:
            raise TemplateError(
                f"Unable to fetch parameters [{name}] from parameter store for this account."
            ) from error
        return str(answer["Parameter"]["Value"])


def pseudo_parameters(stack: Stack) -> dict[str, Any]:
    """Return the values of AWS::Region and the other pseudo parameters."""
    partition = partition_of(stack.region)
    return {
        "AWS::AccountId": stack.account,
        "AWS::NotificationARNs": stack.notification_arns,
        "AWS::NoValue": NO_VALUE,
        "AWS::Partition": partition,
        "AWS::Region": stack.region,
        "AWS::StackId": stack.stack_id,
        "AWS::StackName": stack.name,
        "AWS::URLSuffix": URL_SUFFIXES[partition],
    }


def scope_of(
    lookups: Lookups,
    stack: Stack,
    template: Template,
    parameters: Mapping[str, Any],
    resources: Mapping[str, Resource],
    *,
    later: Callable[[str], bool] = lambda _: False,
    skipped: Callable[[str], bool] = lambda _: False,
    imported: Callable[[str], Any] | None = None,
    decided: dict[str, bool] | None = None,
) -> Scope:
    """Return the scope in which `template`'s values are evaluated.

    `parameters` are effective values by name; `resources` are the stack's existing ones; `later` says whether a
    resource's values are only known after the template is applied, for change sets; `skipped` whether its condition is
    false; `imported` replaces `Exports.read`, which also notes that the stack uses the export; `decided` are conditions
    whose values are known.
    """
    names: dict[str, Any] = {**pseudo_parameters(stack), **parameters}
    for logical_id in template.resources:
        if skipped(logical_id):
            continue
        if later(logical_id):
            names[logical_id] = UNKNOWN
        elif logical_id in resources:
            names[logical_id] = resources[logical_id].physical_id

    def attribute(logical_id: str, name: str) -> Any:
        if skipped(logical_id):
            raise build_unresolved_error(logical_id)
        if later(logical_id):
            return UNKNOWN
        resource = resources.get(logical_id)
        if resource is None:
            raise TemplateError(
                f"Template error: instance of Fn::GetAtt references undefined resource {logical_id}"
            )
        if name in resource.attributes:
            return resource.attributes[name]
        # A property is an attribute too (recorded: an SNS topic's DisplayName).
        for source in (resource.attributes, resource.properties):
            value = _at_path(source, name)
            if value is not None:
                return value
        raise NoSuchAttribute(resource.type, logical_id, name)

    return Scope(
        names=names,
        attribute=attribute,
        imported=imported or (lambda name: lookups.exports.read(stack, name)),
        dynamic=lambda service, key: lookups.dynamic(stack, service, key),
        conditions=template.conditions,
        mappings=template.mappings,
        decided={} if decided is None else decided,
    )


def _at_path(value: Any, path: str) -> Any:
    """Return the member at a path such as `Endpoint.Address`; None when it is missing."""
    for part in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = cast("Mapping[str, Any]", value).get(part)
    return value


def decide(template: Template, scope: Scope) -> None:
    """Evaluate every condition, each after those that it refers to. Raises TemplateError."""
    conditions = template.conditions.items()
    for name in in_order({name: set(conditions_in(value)) for name, value in conditions}):
        scope.condition(name)
    scope.allowance = Allowance()


def check_rules(template: Template, scope: Scope) -> None:
    """Raise TemplateError when a rule's assertion does not hold."""
    for rule in template.rules.values():
        condition = rule.get("RuleCondition")
        if condition is not None and not evaluate(condition, scope):
            continue
        for assertion in get_list(rule, "Assertions"):
            if not evaluate(assertion["Assert"], scope):
                described = assertion.get("AssertDescription", "an assertion failed")
                raise TemplateError(f"Template constraint violation: {described}")


def evaluate_outputs(template: Template, scope: Scope) -> list[dict[str, str]]:
    """Return a template's outputs in the API's form. Raises TemplateError, ResourceFailed."""
    outputs: list[dict[str, str]] = []
    for name, output in template.outputs.items():
        if "Condition" in output and not scope.condition(output["Condition"]):
            continue
        try:
            value = evaluate(output["Value"], scope)
        except NoSuchAttribute as error:
            raise _at_its_place(f"/Outputs/{name}/Value", output["Value"], error) from error
        entry = {"OutputKey": name, "OutputValue": output_text(value)}
        if output.get("Description"):
            entry["Description"] = str(output["Description"])
        if output.get("Export"):
            entry["ExportName"] = str(evaluate(output["Export"]["Name"], scope))
        outputs.append(entry)
    return outputs


def check_outputs(template: Template, scope: Scope) -> None:
    """Raise TemplateError for what AWS refuses in outputs and what depends on no resource: export names, no value."""
    for name, output in template.outputs.items():
        if "Condition" in output and not scope.condition(output["Condition"]):
            continue
        check_output_value(_choose_branch(output["Value"], scope), template)
        if output.get("Export"):
            check_export_name(name, evaluate(output["Export"]["Name"], scope))


def _choose_branch(value: Any, scope: Scope) -> Any:
    """Return the branch of an output's value that its conditions choose."""
    while isinstance(value, dict) and list(cast("dict[str, Any]", value)) == ["Fn::If"]:
        name, yes, no = cast("list[Any]", value["Fn::If"])
        value = yes if scope.condition(str(name)) else no
    return cast("Any", value)


def _at_its_place(path: str, value: Any, error: NoSuchAttribute) -> ResourceFailed:
    """Return the error for an attribute, with the path of its Fn::GetAtt in the template (recorded)."""
    expected = [error.logical_id, *error.name.split(".")]
    for where, path_found in _attributes(path, value):
        parts = (
            path_found.split(".")
            if isinstance(path_found, str)
            else ".".join(map(str, path_found)).split(".")
        )
        if parts == expected:
            path = where
            break
    return ResourceFailed(
        f"[Error] {path}: Resource type {error.kind} does not support attribute {{{error.name}}}."
    )


def _attributes(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield each Fn::GetAtt in a value with its path."""
    if isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            if key == "Fn::GetAtt" and isinstance(item, (str, list)):
                yield f"{path}/{key}", cast("Any", item)
            else:
                yield from _attributes(f"{path}/{key}", item)
    elif isinstance(value, list):
        for at, item in enumerate(cast("list[Any]", value)):
            yield from _attributes(f"{path}/{at}", item)
