"""Shifts a Lambda alias to a new version step by step, as CodeDeploy does; a failing hook rolls the shift back.

This happens when an alias with the UpdatePolicy CodeDeployLambdaAliasUpdate gets another version. A hook is a function
that receives two ids, and answers by PutLifecycleEventHookExecutionStatus within an hour. Any failure sends all calls
back to the old version.

Sources: .../aws-attribute-updatepolicy.html#cfn-attributes-updatepolicy-codedeploylambdaaliasupdate,
.../codedeploy/latest/userguide/deployment-configurations.html and
.../reference-appspec-file-structure-hooks.html (documented). Sentences are assumed.

Rollback triggers: alarms that roll back a stack's creation or update when they go off during it or soon after.

Documented: API_RollbackConfiguration and the user guide's using-cfn-rollback-triggers.html: alarms are checked while
resources are created, and for the monitoring time after that; a missing alarm fails the operation. The sentences are
assumed, and also that an alarm counts which is already in ALARM when the operation begins.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from headrace.core.arn import Arn, make_arn
from headrace.core.ports import FunctionNotFound, FunctionThrottled
from headrace.core.values import get_list
from headrace.services.cloudformation.errors import ResourceFailed, TemplateError
from headrace.services.cloudformation.resources.base import (
    Context,
    Ports,
    Properties,
    ResourceResult,
    Update,
)
from headrace.services.cloudformation.signals import receiver_of
from headrace.services.cloudformation.state import Stack

# How often the alarms are checked.
LOOK_EVERY_S = 1.0
_KINDS = ("MetricAlarm", "CompositeAlarm")


@dataclass(frozen=True, slots=True)
class RollbackTriggers:
    """The rollback configuration of one operation on a stack. Thread-safe: it holds no state."""

    ports: Ports
    stack: Stack

    @property
    def arns(self) -> list[str]:
        """The ARNs of the alarms."""
        triggers = get_list(self.stack.rollback_configuration, "RollbackTriggers")
        return [str(trigger["Arn"]) for trigger in triggers]

    def breach(self) -> str:
        """Return why the operation must be rolled back: missing alarms, or alarms in ALARM; otherwise an empty text.

        Raises AwsError when CloudWatch refuses the call.
        """
        states = {arn: self._state(arn) for arn in self.arns}
        missing = [arn for arn, state in states.items() if not state]
        if missing:
            return f"The following rollback trigger(s) do not exist: [{', '.join(missing)}]."
        breached = [arn for arn, state in states.items() if state == "ALARM"]
        if breached:
            return f"The following rollback trigger(s) are in ALARM state: [{', '.join(breached)}]."
        return ""

    def monitor(self, stop: threading.Event) -> str | None:
        """Check the alarms for the monitoring time; return why the operation must be rolled back, or None.

        `stop` ends the wait early: the operation is cancelled.
        """
        clock = self.ports.clock
        minutes = int(self.stack.rollback_configuration.get("MonitoringTimeInMinutes") or 0)
        due_s = clock.monotonic_s() + 60 * minutes
        while True:
            if breach := self.breach():
                return breach
            left_s = due_s - clock.monotonic_s()
            if left_s <= 0:
                return None
            if clock.wait(stop, min(left_s, LOOK_EVERY_S)):
                return "The operation was cancelled."

    def _state(self, arn: str) -> str:
        """Return an alarm's state; an empty text: the alarm does not exist."""
        alarm = Arn.parse(arn)
        answer: dict[str, Any] = self.ports.control.call(
            "cloudwatch",
            "DescribeAlarms",
            {
                "AlarmNames": [alarm.resource.removeprefix("alarm:")],
                "AlarmTypes": list(_KINDS),
            },
            account=alarm.account,
            region=alarm.region,
            acting=self.stack.acting,
        )
        alarms = [*get_list(answer, "MetricAlarms"), *get_list(answer, "CompositeAlarms")]
        return str(alarms[0].get("StateValue", "OK")) if alarms else ""


POLICY = "CodeDeployLambdaAliasUpdate"
ALIAS = "AWS::Lambda::Alias"
_MEMBERS = {"ApplicationName", "DeploymentGroupName", "BeforeAllowTrafficHook"} | {
    "AfterAllowTrafficHook"
}
_ALL_AT_ONCE = "CodeDeployDefault.LambdaAllAtOnce"
_CONFIG = re.compile(
    r"CodeDeployDefault\.Lambda(?:(Canary)10Percent(5|10|15|30)|(Linear)10PercentEvery(1|2|3|10))Minutes?"
)
_STEP_PERCENT = 10
_HOOK_WITHIN_S = 3_600.0
_LOOK_EVERY_S = 0.1
_MINUTE_S = 60


def alias_policy(
    definition: Mapping[str, Any], evaluated: Callable[[Any], Any] = lambda value: value
) -> dict[str, Any] | None:
    """Return an alias's update policy; None for another type, or without a policy. Raises TemplateError."""
    policies: Any = definition.get("UpdatePolicy")
    if definition["Type"] != ALIAS or not isinstance(policies, dict) or POLICY not in policies:
        return None
    policy = evaluated(cast("dict[str, Any]", policies)[POLICY])
    if not isinstance(policy, dict):
        raise TemplateError(f"Template format error: {POLICY} must be an object.")
    return cast("dict[str, Any]", policy)


def steps_of(config: str) -> list[tuple[int, int]]:
    """Return the steps before all calls go to the new version: (percent of the calls, minutes until the next step).

    Raises ResourceFailed for a configuration that is not one of AWS's own.
    """
    if config == _ALL_AT_ONCE:
        return []
    match = _CONFIG.fullmatch(config)
    if match is None:
        raise ResourceFailed(
            f"headrace deploys aliases by CodeDeploy's own configurations for Lambda; {config} is not one"
        )
    if match.group(1):
        return [(_STEP_PERCENT, int(match.group(2)))]
    return [(percent, int(match.group(4))) for percent in range(_STEP_PERCENT, 100, _STEP_PERCENT)]


def execution_id(stack_id: str, logical_id: str, hook: str) -> str:
    """Return the id that a hook answers with; it encodes the stack, the resource and the hook."""
    return base64.urlsafe_b64encode(json.dumps([stack_id, logical_id, hook]).encode()).decode()


@dataclass(frozen=True, slots=True)
class AliasDeployment:
    """The deployment of one alias, by its evaluated policy. Used by one thread."""

    policy: Mapping[str, Any]
    change: Update

    def update(
        self, context: Context, physical_id: str, old: Properties, new: Properties
    ) -> ResourceResult:
        """Change the alias; see `ResourceType.update`. Raises ResourceFailed, AwsError, Cancelled."""
        if old.get("FunctionVersion") == new.get("FunctionVersion"):
            return self.change(context, physical_id, old, new)
        group = self._group(context)
        steps = steps_of(group.get("deploymentConfigName") or _ALL_AT_ONCE)
        alarms = list(_alarms(group))
        deployment = f"d-{context.ids.alnum_upper(9)}"
        self._run_hook(context, deployment, "BeforeAllowTrafficHook")
        try:
            for percent, minutes in steps:
                weight = {
                    "FunctionVersion": new["FunctionVersion"],
                    "FunctionWeight": percent / 100,
                }
                routed = {"RoutingConfig": {"AdditionalVersionWeights": [weight]}}
                self.change(context, physical_id, old, {**old, **routed})
                for _ in range(minutes):
                    _check_alarms(context, alarms)
                    context.pause(_MINUTE_S)
            _check_alarms(context, alarms)
            result = self.change(context, physical_id, old, new)
            self._run_hook(context, deployment, "AfterAllowTrafficHook")
        except ResourceFailed:
            self.change(context, physical_id, new, old)
            raise
        return result

    def _group(self, context: Context) -> dict[str, Any]:
        unknown = sorted(set(self.policy) - _MEMBERS)
        if unknown:
            raise ResourceFailed(f"Encountered unsupported property {unknown[0]} in {POLICY}")
        names: dict[str, Any] = {}
        for member in ("ApplicationName", "DeploymentGroupName"):
            if not self.policy.get(member):
                raise ResourceFailed(f"{member} must be given in {POLICY}")
            names[member[0].lower() + member[1:]] = self.policy[member]
        answer = context.call("codedeploy", "GetDeploymentGroup", names)
        return answer["deploymentGroupInfo"]

    def _run_hook(self, context: Context, deployment: str, hook: str) -> None:
        """Run a hook and wait for its answer. Raises ResourceFailed, Cancelled."""
        function = self.policy.get(hook)
        if not function:
            return
        receiver, token = _receiver(context, hook)
        context.signals.forget(receiver)
        event = {"DeploymentId": deployment, "LifecycleEventHookExecutionId": token}
        _invoke(context, str(function), json.dumps(event).encode())
        deadline_s = context.clock.monotonic_s() + _HOOK_WITHIN_S
        try:
            while not (answers := context.signals.of(receiver)):
                if context.clock.monotonic_s() > deadline_s:
                    raise ResourceFailed(f"The {hook} {function} did not answer within an hour")
                context.pause(_LOOK_EVERY_S)
        finally:
            context.signals.forget(receiver)
        if answers[0].status != "SUCCESS":
            raise ResourceFailed(f"The {hook} {function} said that it failed")


def _receiver(context: Context, hook: str) -> tuple[str, str]:
    token = execution_id(context.stack_id, context.logical_id, hook)
    return receiver_of(context.stack_id, context.logical_id), token


def _invoke(context: Context, function: str, payload: bytes) -> None:
    """Invoke a hook's function. Raises ResourceFailed, Cancelled."""
    if not function.startswith("arn:"):
        function = make_arn("lambda", context.region, context.account, f"function:{function}")
    while True:
        try:
            result = context.functions.invoke(function, payload)
        except FunctionThrottled:
            context.pause(1.0)
        except FunctionNotFound as error:
            raise ResourceFailed(f"Function not found: {function}") from error
        else:
            break
    if result.function_error is not None:
        shown = result.payload.decode("utf-8", "replace")
        raise ResourceFailed(f"The hook {function} failed before it answered: {shown[:1000]}")


def _alarms(group: Mapping[str, Any]) -> Iterator[str]:
    configuration: dict[str, Any] = group.get("alarmConfiguration") or {}
    if configuration.get("enabled"):
        yield from (str(alarm["name"]) for alarm in get_list(configuration, "alarms"))


def _check_alarms(context: Context, names: list[str]) -> None:
    """Raise ResourceFailed when one of the deployment group's alarms is in ALARM."""
    if not names:
        return
    answer = context.call("cloudwatch", "DescribeAlarms", {"AlarmNames": names})
    ringing = [
        alarm["AlarmName"]
        for alarm in get_list(answer, "MetricAlarms")
        if alarm["StateValue"] == "ALARM"
    ]
    if ringing:
        raise ResourceFailed(f"The alarms [{', '.join(ringing)}] of the deployment group are on")
