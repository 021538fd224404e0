"""Refuses policies of resources that AWS would refuse to store: each service's code, sentences and limits.

Pure functions. All services use IAM's grammar, but each has its own errors for policies that break it. Sources are
named beside each service; sentences without a source are marked assumed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from headrace.permissions.policies.grammar import PolicyError, check_policy

# Returns whether IAM has a principal, by ARN or unique id; principals of other accounts count as existing.
Exists = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Wording:
    """The errors with which a service refuses policies.

    Attributes:
        code: the code of all errors but the one for a long policy.
        syntax: the sentence about a malformed policy.
        principal: the sentence about a principal that does not exist or is invalid.
        vendor: the prefix of the service's actions; empty when the service does not check it.
        action: the sentence about actions of other services.
        most_bytes: the largest size of a policy; `too_long` and `long_code` are the error for a larger one.
        needs_whole_statements: whether a statement without Action or Resource is refused.
    """

    code: str
    syntax: str
    principal: str
    vendor: str = ""
    action: str = ""
    most_bytes: int = 0
    too_long: str = ""
    long_code: str = ""
    needs_whole_statements: bool = True


# SQS has one sentence for all problems (github.com/aws/aws-cdk/issues/15602; the answer itself is in
# github.com/hashicorp/terraform-provider-aws/pull/42209); 8,192 bytes: quotas-policies.html of its developer guide.
_SQS = "Invalid value for the parameter Policy."
# SNS: github.com/serverless/serverless/issues/5519 (a misspelled element), github.com/aws/aws-cli/issues/3143
# (actions), github.com/hashicorp/terraform/issues/31538 (principals).
_SNS = "Invalid parameter: Policy Error: null"
# Secrets Manager: its examples of ValidateResourcePolicy (principal), and pull request 623 of
# github.com/awsdocs/aws-cloudformation-user-guide (syntax).
# DynamoDB: github.com/hashicorp/terraform-provider-aws (empty Statement); the others assumed to be of the same form.
_DYNAMODB = "One or more parameter values were invalid: Invalid policy document: "
WORDINGS: dict[str, Wording] = {
    "sqs": Wording("InvalidAttributeValue", _SQS, _SQS, "sqs", _SQS, 8192, _SQS),
    "sns": Wording(
        "InvalidParameter",
        _SNS,
        "Invalid parameter: Policy Error: PrincipalNotFound",
        "sns",
        "Invalid parameter: Policy statement action out of service scope!",
        30 * 1024,  # sns/latest/api/API_AddPermission.html: 30 KB
        "Invalid parameter: Policy is too long.",  # assumed
    ),
    # repost.aws/knowledge-center/kms-policy-error-invalid-principals; kms/latest/APIReference/API_PutKeyPolicy.html: a
    # statement without Action or Resource is stored, and without effect; 32 KiB. The sentences of length and syntax
    # are assumed.
    "kms": Wording(
        "MalformedPolicyDocumentException",
        "The policy document is not syntactically correct.",
        "Policy contains a statement with one or more invalid principals.",
        most_bytes=32 * 1024,
        too_long="The key policy exceeds the limit of 32768 bytes.",
        long_code="LimitExceededException",
        needs_whole_statements=False,
    ),
    "secretsmanager": Wording(
        "MalformedPolicyDocumentException",
        "This policy has invalid syntax.",
        "This resource policy contains an unsupported principal.",
    ),
    # ECR: from moto, which has it from AWS; its policies have no Resource.
    "ecr": Wording(
        "InvalidParameterException",
        "Invalid parameter at 'PolicyText' failed to satisfy constraint: 'Invalid repository policy provided'",
        "Invalid parameter at 'PolicyText' failed to satisfy constraint: 'Invalid repository policy provided'",
        needs_whole_statements=False,
    ),
    # Lambda: PutResourcePolicy's reference has the codes; the sentences are assumed.
    "lambda": Wording(
        "InvalidParameterValueException",
        "The policy document is not valid.",
        "The provided principal was invalid. Please check the principal and try again.",
        "lambda",
        "Every Action of the policy must be one of Lambda's.",
        20 * 1024,
        "The final policy size is bigger than the limit (20480).",
        "PolicyLengthExceededException",
    ),
    "dynamodb": Wording(
        "ValidationException",
        _DYNAMODB + "Syntax errors in policy.",
        _DYNAMODB + "Invalid principal in policy",
        most_bytes=20 * 1024,
        too_long=_DYNAMODB + "Policy exceeds the maximum allowed document size.",
    ),
    # CloudWatch Logs: PutResourcePolicy's reference has the code; the sentences are assumed.
    "logs": Wording(
        "InvalidParameterException",
        "The resource policy document is not valid.",
        "The resource policy document contains an invalid principal.",
    ),
    # EventBridge: the sentence about JSON is from moto, which has it from AWS; the one about principals is assumed;
    # 10,240 characters: eb-quota.html.
    "events": Wording(
        "ValidationException",
        "This policy contains invalid Json",
        "This policy contains an invalid principal.",
        most_bytes=10_240,
        too_long="The event bus policy is too long. For more information, see the limits.",
        long_code="PolicyLengthExceededException",
    ),
}  # fmt: skip


def check_resource_policy(service: str, text: str, exists: Exists) -> None:
    """Refuse an invalid resource policy of `service`, one of WORDINGS. Raises PolicyError, with its sentence."""
    wording = WORDINGS[service]
    if wording.most_bytes and len(text.encode()) > wording.most_bytes:
        raise PolicyError(wording.long_code or wording.code, wording.too_long)
    try:
        check_policy(text, "resource" if wording.needs_whole_statements else "key")
    except PolicyError as error:
        sentence = wording.syntax
        if error.message.startswith("Invalid principal"):
            sentence = wording.principal
        raise PolicyError(wording.code, sentence) from None
    for statement in statements_of(text):
        if wording.vendor and not all(_is_of(wording.vendor, one) for one in actions_of(statement)):
            raise PolicyError(wording.code, wording.action)
    if find_missing_principal(text, exists):
        raise PolicyError(wording.code, wording.principal)


def find_missing_principal(text: str, exists: Exists) -> str:
    """Return the first principal of a well-formed policy that IAM does not have; empty when IAM has all."""
    for statement in statements_of(text):
        value = statement.get("Principal", statement.get("NotPrincipal"))
        if isinstance(value, dict):
            for name in as_list(cast("dict[str, Any]", value).get("AWS", [])):
                if not exists(str(name)):
                    return str(name)
    return ""


def statements_of(text: str) -> list[dict[str, Any]]:
    """Return the statements of a well-formed policy."""
    return [cast("dict[str, Any]", one) for one in as_list(json.loads(text).get("Statement", []))]


def actions_of(statement: dict[str, Any]) -> Iterator[str]:
    """Yield the values of a statement's Action and NotAction."""
    for name in ("Action", "NotAction"):
        yield from (str(one) for one in as_list(statement.get(name, [])))


def as_list(value: Any) -> list[Any]:
    """Return a list unchanged, and any other value as a list of one."""
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _is_of(vendor: str, action: str) -> bool:
    return action == "*" or action.lower().startswith(f"{vendor}:")
