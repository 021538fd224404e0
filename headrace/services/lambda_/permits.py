"""Who may do what with a function: its role's permissions, its resource policy, code signing.

Checks a function's execution role for Lambda's own calls: reading the event source, sending to destinations, logs.

Source: docs.aws.amazon.com/lambda/latest/dg/with-kinesis.html ("Required permissions"), services-sqs-configure.html
and lambda-intro-execution-role.html (documented); the error messages are those that many users report.

Evaluates a function's resource policy: whether it allows a caller an action.

A caller from the function's own account may do everything here; `headrace.permissions.decisions` evaluates its identity
policies. As on AWS, services and anonymous callers, which have no identity policies, need a statement in the resource
policy.

Code signing configurations: which signatures functions' code needs, and what happens to unsigned code.

No package in headrace is signed by AWS Signer, so each one is an untrusted artifact. A configuration that enforces
signatures refuses every package, as AWS refuses an unsigned one; a configuration that warns accepts every package.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import Arn, make_arn
from headrace.core.ids import Ids
from headrace.core.ports import CallerIdentity, Guard, NoGuard
from headrace.permissions.policies.document import (
    WITH_VARIABLES,
    Statement,
    UnreadableDocument,
    parse_document,
)
from headrace.services.lambda_.errors import invalid_parameter
from headrace.services.lambda_.names import format_lambda_time
from headrace.services.lambda_.state import Function
from headrace.store.database import Database

SERVICE = "lambda.amazonaws.com"
# On AWS, the session's name also has a number and a time (observed in CloudTrail).
SESSION = "awslambda"

# The Serverless Framework gives its functions no more than these, for streams and for consumers (observed).
_STREAM_READS = ("GetRecords", "GetShardIterator", "DescribeStream")
_CONSUMER_READS = ("GetRecords", "GetShardIterator", "DescribeStreamSummary", "ListShards")
_QUEUE_READS = ("ReceiveMessage", "DeleteMessage", "GetQueueAttributes")
_WRITES_LOG = ("logs:CreateLogStream", "logs:PutLogEvents")
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
        is_consumer = "/consumer/" in read_arn
        denied = [
            name
            for name in (_CONSUMER_READS if is_consumer else _STREAM_READS)
            if self._explain_denial(role, f"{service}:{name}", _stream(read_arn))
        ]
        if is_consumer and self._explain_denial(role, "kinesis:SubscribeToShard", read_arn):
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

    def may_log(self, function: Function, acting: CallerIdentity, group: str, stream: str) -> bool:
        """Whether a function's role may make its log's stream and write to it. If it may not, AWS drops the lines."""
        resource = _stream_arn(function.region, function.account, group, stream)
        denials = [self.guard.denial(acting, action, resource) for action in _WRITES_LOG]
        return not any(denials)

    def _explain_denial(self, role: str, action: str, resource: str) -> str:
        return self.guard.denial(CallerIdentity(role, SESSION), action, resource) if role else ""


EVERYTHING = Permits(NoGuard())


@functools.lru_cache(maxsize=1000)
def _stream_arn(region: str, account: str, group: str, stream: str) -> str:
    return make_arn("logs", region, account, f"log-group:{group}:log-stream:{stream}")


def _stream(read_arn: str) -> str:
    return read_arn.partition("/consumer/")[0]


def _build_queue_refusal(action: str) -> AwsError:
    return invalid_parameter(
        f"The provided execution role does not have permissions to call {action} on SQS"
    )


INVOKE = "lambda:InvokeFunction"
INVOKE_URL = "lambda:InvokeFunctionUrl"


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of an action: a service, an account, or an anonymous caller.

    Attributes:
        service: the service, such as `s3.amazonaws.com`; "" for other callers.
        account: the caller's account of 12 digits; "" for a service and for an anonymous caller.
        context: the request's condition keys in lower case, such as `aws:sourcearn`.
    """

    service: str = ""
    account: str = ""
    context: Mapping[str, str] = field(default_factory=dict[str, str])

    def values(self, key: str) -> tuple[str, ...]:
        """Return the values of a condition key in lower case."""
        value = self.context.get(key)
        return () if value is None else (value,)

    @staticmethod
    def of_service(service: str, *, source_arn: str, source_account: str) -> Caller:
        """Return the caller for a service that acts for one of its resources."""
        context = {"aws:sourcearn": source_arn, "aws:sourceaccount": source_account}
        return Caller(service=service, context=context)


def policy_text(function: Function, qualifier: str | None) -> str:
    """Return the JSON policy of a function, version or alias; "" when it has none."""
    name = qualifier or ""
    statements = function.policies.get(name)
    if not statements:
        return ""
    head = function.policy_heads.get(name, {"Version": WITH_VARIABLES, "Id": "default"})
    return json.dumps({**head, "Statement": list(statements.values())}, separators=(",", ":"))


def allows(function: Function, qualifier: str | None, action: str, caller: Caller) -> bool:
    """Whether the policy of a function, version or alias allows the caller the action."""
    text = policy_text(function, qualifier)
    if not text:
        return False
    try:
        document = parse_document(text)
    except UnreadableDocument:
        return False
    resource = replace(function.ref, qualifier=qualifier).qualified_arn
    values = caller.values
    # Denials come first.
    for statement in document.about(action):
        if (
            _is_named(statement, caller)
            and statement.has_resource(resource, values)
            and statement.unmet(values) is None
        ):
            return statement.effect == "Allow"
    return False


def _principals_of(caller: Caller) -> set[str]:
    """Return a service's names in policies: also that of its region, `logs.us-east-1.amazonaws.com` (recorded)."""
    region = caller.context.get("aws:sourcearn", ":::").split(":")[3]
    name, _, suffix = caller.service.partition(".")
    return {caller.service, f"{name}.{region}.{suffix}"}


def _is_named(statement: Statement, caller: Caller) -> bool:
    """Whether the statement applies to the caller. Of a caller of another account only the account is known here."""
    named = statement.principals
    if named is None:
        return False
    if named.is_everyone:
        is_named = True
    elif caller.service:
        is_named = not named.services.isdisjoint(_principals_of(caller))
    else:
        is_named = bool(caller.account) and any(
            caller.account in who.split(":") for who in named.aws
        )
    return is_named != statement.not_principals


log = logging.getLogger(__name__)

# The name in a function's settings for the ARN of its configuration.
CODE_SIGNING = "CodeSigningConfigArn"
_DEFAULT_POLICIES = {"UntrustedArtifactOnDeployment": "Warn"}


class CodeSigning:
    """Stores all code signing configurations, by ARN, in the state database. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._documents = database.documents("lambda_code_signing")
        self._tags = database.documents("lambda_code_signing_tags")

    def create(
        self, account: str, region: str, request: Mapping[str, Any], *, ids: Ids, now_ms: int
    ) -> dict[str, Any]:
        """Store a configuration and return it as AWS's CodeSigningConfig."""
        name = f"csc-{ids.hex(17)}"
        arn = make_arn("lambda", region, account, f"code-signing-config:{name}")
        config = {
            "CodeSigningConfigId": name,
            "CodeSigningConfigArn": arn,
            "Description": request.get("Description", ""),
            "AllowedPublishers": request["AllowedPublishers"],
            "CodeSigningPolicies": request.get("CodeSigningPolicies") or _DEFAULT_POLICIES,
            "LastModified": format_lambda_time(now_ms),
        }
        self.put(config, request.get("Tags") or {})
        return config

    def find(self, arn: str) -> dict[str, Any] | None:
        """Return a configuration, or None."""
        return self._documents.get(arn)

    def get(self, arn: str) -> dict[str, Any]:
        """Return a configuration. Raises AwsError."""
        config = self.find(arn)
        if config is None:
            raise AwsError(
                "ResourceNotFoundException",
                f"The Lambda code signing configuration {arn} can not be found.",
                404,
            )
        return config

    def find_attached(self, arn: str) -> dict[str, Any]:
        """Return the configuration for a function; a missing one has another error than in `get`. Raises AwsError."""
        config = self.find(arn)
        if config is None:
            raise AwsError(
                "CodeSigningConfigNotFoundException",
                "The code signing configuration cannot be found. Check that the provided configuration is not "
                f"deleted: {arn}.",
                404,
                {"Type": "User"},
            )
        return config

    def put(self, config: dict[str, Any], tags: Mapping[str, str] | None = None) -> None:
        """Store a changed configuration, with new tags if they are given."""
        arn = str(config["CodeSigningConfigArn"])
        self._documents.put(arn, config)
        if tags is not None:
            self._tags.put(arn, dict(tags))

    def tags(self, arn: str) -> dict[str, str]:
        """Return the tags of a configuration."""
        return dict(self._tags.get(arn) or {})

    def delete(self, arn: str) -> None:
        """Remove a configuration."""
        self._documents.delete(arn)
        self._tags.delete(arn)

    def all(self, account: str, region: str) -> list[dict[str, Any]]:
        """Return the configurations of an account and region, sorted by ARN."""
        prefix = make_arn("lambda", region, account, "code-signing-config:")
        return [config for _, config in self._documents.items(prefix)]

    def check_code(self, arn: str | None) -> None:
        """Refuse the code of a function whose configuration enforces signatures. Raises AwsError.

        Source of the message: the API reference's description of CodeVerificationFailedException (documented).
        """
        if arn is None:
            return
        policies = self.find_attached(arn)["CodeSigningPolicies"]
        if policies.get("UntrustedArtifactOnDeployment") == "Enforce":
            raise AwsError(
                "CodeVerificationFailedException",
                "The code signature failed one or more of the validation checks for signature mismatch or expiry, "
                "and the code signing policy is set to ENFORCE. Lambda blocks the deployment.",
                400,
                {"Type": "User"},
            )
        log.warning(
            "unsigned code is deployed: the code signing configuration %s only warns about it", arn
        )
