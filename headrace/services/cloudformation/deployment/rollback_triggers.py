"""Rollback triggers: alarms that roll back a stack's creation or update when they go off during it or soon after.

Documented: API_RollbackConfiguration and the user guide's using-cfn-rollback-triggers.html: alarms are checked while
resources are created, and for the monitoring time after that; a missing alarm fails the operation. The sentences are
assumed, and also that an alarm counts which is already in ALARM when the operation begins.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from headrace.core.arn import Arn
from headrace.core.values import get_list
from headrace.services.cloudformation.ports import Ports
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
