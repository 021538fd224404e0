"""Checks a function's execution role for Lambda's own calls: reading the event source, sending to destinations, logs.

Source: docs.aws.amazon.com/lambda/latest/dg/with-kinesis.html ("Required permissions"), services-sqs-configure.html
and lambda-intro-execution-role.html (documented); the error messages are those that many users report.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import Arn, make_arn
from headrace.core.ports import CallerIdentity, Guard, NoGuard
from headrace.services.lambda_.errors import invalid_parameter
from headrace.services.lambda_.runtime.environment import SandboxSpec
from headrace.services.lambda_.state import Function

SERVICE = "lambda.amazonaws.com"
# On AWS, the session's name also has a number and a time (observed in CloudTrail).
SESSION = "awslambda"

_STREAM_READS = {
    "kinesis": ("GetRecords", "GetShardIterator", "DescribeStream", "ListShards"),
    "dynamodb": ("GetRecords", "GetShardIterator", "DescribeStream"),
}
_QUEUE_READS = ("ReceiveMessage", "DeleteMessage", "GetQueueAttributes")
_SENDS = {
    "sqs": "sqs:SendMessage",
    "sns": "sns:Publish",
    "lambda": "lambda:InvokeFunction",
    "events": "events:PutEvents",
    "s3": "s3:PutObject",
}


@dataclass(frozen=True, slots=True)
class Permits:
    """Checks the permissions of functions' roles. Thread-safe; a repeated check is only a dictionary lookup."""

    guard: Guard

    def check_role(self, role: str) -> None:
        """Refuse a role that is missing or that Lambda may not assume. Raises AwsError."""
        if role and self.guard.denial(CallerIdentity(SERVICE), "sts:AssumeRole", role):
            raise invalid_parameter(
                "The role defined for the function cannot be assumed by Lambda."
            )

    def check_source(self, role: str, read_arn: str) -> None:
        """Refuse an event source that the role may not read. Raises AwsError."""
        if Arn.parse(read_arn).service == "sqs":
            for action in _QUEUE_READS:
                if self._explain_denial(role, f"sqs:{action}", read_arn):
                    raise _build_queue_refusal(action)
            return
        service = Arn.parse(read_arn).service
        denied = [
            name
            for name in _STREAM_READS[service]
            if self._explain_denial(role, f"{service}:{name}", _stream(read_arn))
        ]
        if "/consumer/" in read_arn and self._explain_denial(
            role, "kinesis:SubscribeToShard", read_arn
        ):
            denied.append("SubscribeToShard")
        if denied:
            raise invalid_parameter(
                f"Cannot access stream {read_arn}. Please ensure the role can perform the GetRecords, GetShardIterator,"
                " DescribeStream, and ListStreams Actions on your stream in IAM."
            )

    def problem_with_reading(self, role: str, read_arn: str) -> str:
        """Return a mapping's LastProcessingResult if the role may no longer read the source, otherwise ""."""
        if "/consumer/" in read_arn:
            action = "kinesis:SubscribeToShard"
        else:
            service = read_arn.split(":", 3)[2]
            action = "sqs:ReceiveMessage" if service == "sqs" else f"{service}:GetRecords"
        sentence = self._explain_denial(role, action, read_arn)
        # The words after PROBLEM are assumed.
        return f"PROBLEM: {sentence}" if sentence else ""

    def problem_with_sending(self, role: str, arn: str, key: str = "") -> str:
        """Return why a role may not send to a destination, or "" when it may. `key` is the object's key in a bucket."""
        action = _SENDS.get(arn.split(":")[2])
        resource = f"{arn}/{key}" if action == "s3:PutObject" else arn
        return "" if action is None else self._explain_denial(role, action, resource)

    def may_log(self, function: Function, spec: SandboxSpec, stream: str) -> bool:
        """Whether a function's role may write the function's log. If it may not, AWS drops the lines."""
        acting = CallerIdentity(spec.role, spec.name)
        name = f"log-group:{spec.log_group}:log-stream:{stream}"
        resource = make_arn("logs", function.region, function.account, name)
        return not self.guard.denial(acting, "logs:PutLogEvents", resource)

    def _explain_denial(self, role: str, action: str, resource: str) -> str:
        return self.guard.denial(CallerIdentity(role, SESSION), action, resource) if role else ""


EVERYTHING = Permits(NoGuard())


def _stream(read_arn: str) -> str:
    return read_arn.partition("/consumer/")[0]


def _build_queue_refusal(action: str) -> AwsError:
    return invalid_parameter(
        f"The provided execution role does not have permissions to call {action} on SQS"
    )
