"""Step Functions' aliases: an alias routes to versions of its own state machine; a second one of its name is refused.

moto stores any routing, and replaces an alias by a second one with its name.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateUsage=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import random
from typing import Any

from headrace.aws.calls.errors import AwsError

MOST_ROUTES = 2


def patch(response: Any, backend: Any) -> None:
    """Replace methods of moto's responses and backend of Step Functions."""
    response._validate_routing_configuration = _check_routes
    backend.create_state_machine_alias = _create_checked(backend.create_state_machine_alias)
    backend.update_state_machine_alias = _update_checked(backend.update_state_machine_alias)
    backend.delete_state_machine_alias = _delete_if_there(backend.delete_state_machine_alias)


def _create_checked(create: Any) -> Any:
    def create_state_machine_alias(
        self: Any, name: str, routing_configuration: list[dict[str, Any]], description: str | None
    ) -> Any:
        machine_arn = _machine_of(routing_configuration)
        _check_versions(self, machine_arn, routing_configuration)
        machine = find_machine(self, machine_arn)
        known = machine.aliases.get(name) if machine is not None else None
        if known is None:
            return create(self, name, routing_configuration, description)
        # Recorded: an identical request returns the alias, any other is a conflict; a different description also gives
        # this sentence.
        same = (known.routing_configuration, known.description or None)
        if same != (routing_configuration, description or None):
            raise AwsError(
                "ConflictException",
                "Failed to create alias because an alias with the same name and a different routing"
                " configuration already exists.",
            )
        return known

    return create_state_machine_alias


def _update_checked(update: Any) -> Any:
    def update_state_machine_alias(
        self: Any,
        arn: str,
        description: str | None,
        routing_configuration: list[dict[str, Any]] | None,
    ) -> Any:
        machine = find_machine(self, arn.rpartition(":")[0])
        alias = machine and machine.aliases.get(arn.rpartition(":")[2])
        if alias is None:  # recorded
            sentence = "Request references a resource that does not exist."
            raise AwsError("ResourceNotFound", sentence)
        if routing_configuration:
            machine_arn = _machine_of(routing_configuration)
            if machine_arn != alias.statemachine_arn:
                raise _elsewhere(routing_configuration)
            _check_versions(self, machine_arn, routing_configuration)
        return update(self, arn, description, routing_configuration)

    return update_state_machine_alias


def _delete_if_there(delete: Any) -> Any:
    def delete_state_machine_alias(self: Any, arn: str) -> None:
        machine = find_machine(self, arn.rpartition(":")[0])
        # Recorded: an alias that its state machine does not have is deleted all the same.
        if machine is None or arn.rpartition(":")[2] in machine.aliases:
            delete(self, arn)

    return delete_state_machine_alias


def _check_routes(self: Any, routes: list[dict[str, Any]]) -> None:
    _machine_of(routes)


def find_machine(backend: Any, arn: str) -> Any:
    """Return one of moto's state machines by its ARN; None when there is none."""
    return next((machine for machine in backend.state_machines if machine.arn == arn), None)


def find_version(backend: Any, arn: str) -> tuple[Any, Any]:
    """Return the machine and the version that an ARN names, by a version, by an alias, or the machine as it is now.

    An alias routes by its weights. (None, None) without such a machine. Raises AwsError when it has no such version.
    """
    machine = find_machine(backend, arn)
    if machine is not None:
        return machine, machine
    machine_arn, _, qualifier = arn.rpartition(":")
    machine = find_machine(backend, machine_arn)
    if machine is None:
        return None, None
    alias, number = machine.aliases.get(qualifier), qualifier
    if alias is not None:
        routes = alias.routing_configuration
        weights = [int(route.get("weight", 100)) for route in routes]
        chosen = random.choices(routes, weights)[0]
        number = str(chosen["stateMachineVersionArn"]).rpartition(":")[2]
    version = machine.versions.get(int(number)) if number.isdecimal() else None
    if version is None:
        raise refuse_missing(arn)
    return machine, version


def refuse_missing(arn: str) -> AwsError:
    """Return the error for a state machine that is not there."""
    return AwsError("StateMachineDoesNotExist", f"State Machine Does Not Exist: '{arn}'")


def _machine_of(routes: list[dict[str, Any]]) -> str:
    """Return the ARN of the state machine whose versions the routes name. Raises AwsError.

    The sentences are recorded for CreateStateMachineAlias (LocalStack's test_sfn_api_aliasing.snapshot.json).
    """
    arns = [str(route["stateMachineVersionArn"]) for route in routes]
    if len(routes) > MOST_ROUTES:
        items = ", ".join(
            f"RoutingConfigurationListItem(stateMachineVersionArn={arn}, weight={route['weight']})"
            for arn, route in zip(arns, routes, strict=True)
        )
        raise _invalid(
            f"1 validation error detected: Value '[{items}]' at 'routingConfiguration' failed to"
            f" satisfy constraint: Member must have length less than or equal to {MOST_ROUTES}"
        )
    machines = [arn.rpartition(":") for arn in arns]
    received = f"Received: [{', '.join(arns)}]"
    if any(":stateMachine:" not in arn or not number.isdecimal() for arn, _, number in machines):
        raise _invalid(f"Routing configuration must contain state machine version ARNs. {received}")
    if len(set(arns)) < len(arns):
        raise _invalid(
            f"Routing configuration must contain distinct state machine version ARNs. {received}"
        )
    weights = [int(route["weight"]) for route in routes]
    if sum(weights) != 100:
        raise _invalid(f"Sum of routing configuration weights must equal 100. Received: {weights}")
    if len({arn for arn, _, _ in machines}) > 1:
        raise _elsewhere(routes)
    return machines[0][0]


def _check_versions(backend: Any, machine_arn: str, routes: list[dict[str, Any]]) -> None:
    machine = find_machine(backend, machine_arn)
    for route in routes:
        arn = str(route["stateMachineVersionArn"])
        if machine is None or int(arn.rpartition(":")[2]) not in machine.versions:
            # Documented for both calls; the sentence is assumed.
            raise AwsError("ResourceNotFound", f"State Machine Version Does Not Exist: '{arn}'")


def _elsewhere(routes: list[dict[str, Any]]) -> AwsError:
    # Documented: an alias's versions all belong to one state machine. The sentence is assumed.
    arns = ", ".join(str(route["stateMachineVersionArn"]) for route in routes)
    return _invalid(
        "Routing configuration must contain versions of the alias's own state machine."
        f" Received: [{arns}]"
    )


def _invalid(sentence: str) -> AwsError:
    return AwsError("ValidationException", sentence)
