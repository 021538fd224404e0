"""Parses and compiles policy documents: the statements, and what each applies to.

Parsing accepts every document that AWS may have stored; `grammar` refuses documents before they are stored. One
unreadable statement (such as an unknown operator) makes the whole document unreadable, since a Deny must not be
guessed.

Refuses policies of resources that AWS would refuse to store: each service's code, sentences and limits.

Pure functions. All services use IAM's grammar, but each has its own errors for policies that break it. Sources are
named beside each service; sentences without a source are marked assumed.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from headrace.core.values import parse_json
from headrace.permissions.policies.conditions import (
    Condition,
    Text,
    Values,
    compile_condition,
    compile_text,
    is_operator,
)
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


_NO_VALUES: tuple[str, ...] = ()
# For how many actions of one document the statements are cached.
_MOST_ACTIONS_KEPT = 512
WITH_VARIABLES = "2012-10-17"


class UnreadableDocument(ValueError):
    """The text is not a policy document; the message says why."""


@dataclass(frozen=True, slots=True)
class Patterns:
    """The actions or resources of a statement: a set of literal ones, and those with wildcards or variables."""

    exact: frozenset[str]
    others: tuple[Text, ...]
    is_all: bool
    sources: tuple[str, ...]

    def match(self, text: str, values: Values) -> bool:
        """Whether one of the patterns matches."""
        if self.is_all or text in self.exact:
            return True
        return any(other.matches(text, values) for other in self.others)


@dataclass(frozen=True, slots=True)
class Principals:
    """A statement's Principal by kind; `aws` has accounts, ARNs, unique ids and `*`.

    No caller of headrace has a canonical user id, so a CanonicalUser matches nobody.
    """

    aws: frozenset[str]
    services: frozenset[str]
    federated: frozenset[str]

    @property
    def is_everyone(self) -> bool:
        """Whether the statement applies to everybody."""
        return "*" in self.aws


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement. `resources` or `principals` is None when the statement does not have the element."""

    index: int
    sid: str
    effect: Literal["Allow", "Deny"]
    actions: Patterns
    not_actions: bool
    resources: Patterns | None
    not_resources: bool
    principals: Principals | None
    not_principals: bool
    conditions: tuple[Condition, ...]

    def has_action(self, action: str) -> bool:
        """Whether the statement applies to an action, given in lower case."""
        return self.actions.match(action, _no_values) != self.not_actions

    def has_resource(self, resource: str, values: Values) -> bool:
        """Whether the statement applies to a resource; a statement without resources, as in trust policies, does."""
        if self.resources is None:
            return True
        return self.resources.match(resource, values) != self.not_resources

    @property
    def keys(self) -> tuple[str, ...]:
        """The condition keys that it uses, in conditions and as variables, in lower case."""
        texts = () if self.resources is None else self.resources.others
        of_resources = (key for text in texts for key in text.variables)
        return (*of_resources, *(key for c in self.conditions for key in c.keys))

    def unmet(self, values: Values) -> Condition | None:
        """Return the first condition that the request does not meet; None when it meets all."""
        return next((c for c in self.conditions if not c.holds(values)), None)


def _no_values(_: str) -> tuple[str, ...]:
    return _NO_VALUES


@dataclass(frozen=True, slots=True)
class Document:
    """A policy's text and its statements. Documents with the same text are equal. Thread-safe."""

    text: str
    version: str = field(compare=False)
    statements: tuple[Statement, ...] = field(compare=False)
    _by_action: dict[str, tuple[Statement, ...]] = field(
        default_factory=dict[str, tuple[Statement, ...]], compare=False, repr=False
    )

    def about(self, action: str) -> tuple[Statement, ...]:
        """Return the statements that apply to an action (in any case), denials first."""
        statements = self._by_action.get(action)
        if statements is None:
            name = action.lower()
            about = [statement for statement in self.statements if statement.has_action(name)]
            statements = tuple(sorted(about, key=lambda statement: statement.effect == "Allow"))
            if len(self._by_action) >= _MOST_ACTIONS_KEPT:
                self._by_action.clear()
            self._by_action[action] = statements
        return statements


@functools.lru_cache(maxsize=2048)
def parse_document(text: str) -> Document:
    """Compile a policy's text. Raises UnreadableDocument."""
    try:
        parsed: Any = parse_json(text)
    except ValueError:
        raise UnreadableDocument("The policy is not valid JSON.") from None
    if not isinstance(parsed, dict):
        raise UnreadableDocument("The policy is not a JSON object.")
    document = cast("dict[str, Any]", parsed)
    version = str(document.get("Version", "2008-10-17"))
    value: Any = document.get("Statement", [])
    statements = cast("list[Any]", value if isinstance(value, list) else [value])
    has_variables = version == WITH_VARIABLES
    return Document(
        text,
        version,
        tuple(
            _statement(index, statement, has_variables=has_variables)
            for index, statement in enumerate(statements)
        ),
    )


def _statement(index: int, parsed: Any, *, has_variables: bool) -> Statement:
    if not isinstance(parsed, dict):
        raise UnreadableDocument(f"Statement {index + 1} is not a JSON object.")
    members = cast("dict[str, Any]", parsed)
    effect = members.get("Effect")
    if effect not in ("Allow", "Deny"):
        raise UnreadableDocument(f"Statement {index + 1} has no Effect that is Allow or Deny.")
    not_actions = "NotAction" in members
    actions = _patterns(members.get("NotAction" if not_actions else "Action", []), is_action=True)
    not_resources = "NotResource" in members
    resources: Patterns | None = None
    if not_resources or "Resource" in members:
        listed = members["NotResource" if not_resources else "Resource"]
        resources = _patterns(listed, is_action=False, has_variables=has_variables)
    not_principals = "NotPrincipal" in members
    principals: Principals | None = None
    if not_principals or "Principal" in members:
        principals = _principals(members["NotPrincipal" if not_principals else "Principal"])
    return Statement(
        index=index,
        sid=str(members.get("Sid", "")),
        effect=effect,
        actions=actions,
        not_actions=not_actions,
        resources=resources,
        not_resources=not_resources,
        principals=principals,
        not_principals=not_principals,
        conditions=_conditions(index, members.get("Condition", {}), has_variables=has_variables),
    )


def _patterns(value: Any, *, is_action: bool, has_variables: bool = False) -> Patterns:
    sources = _texts(value)
    exact: set[str] = set()
    others: list[Text] = []
    for source in sources:
        text = compile_text(
            source,
            has_variables=has_variables and not is_action,
            has_wildcards=True,
            in_lower_case=is_action,
        )
        if text.is_literal:
            exact.add(str(text.parts[0]))
        elif source != "*":
            others.append(text)
    return Patterns(frozenset(exact), tuple(others), "*" in sources, sources)


def _principals(value: Any) -> Principals:
    if value == "*":
        value = {"AWS": "*"}
    if not isinstance(value, dict):
        raise UnreadableDocument("A Principal is neither * nor a JSON object.")
    by_kind = {
        kind: frozenset(_texts(names)) for kind, names in cast("dict[str, Any]", value).items()
    }
    nobody: frozenset[str] = frozenset()
    return Principals(
        by_kind.get("AWS", nobody),
        by_kind.get("Service", nobody),
        by_kind.get("Federated", nobody),
    )


def _conditions(index: int, value: Any, *, has_variables: bool) -> tuple[Condition, ...]:
    if not isinstance(value, dict):
        raise UnreadableDocument(f"The Condition of statement {index + 1} is not a JSON object.")
    row: list[Condition] = []
    for operator, keys in cast("dict[str, Any]", value).items():
        if not is_operator(operator):
            raise UnreadableDocument(f"Statement {index + 1}: no condition operator {operator}.")
        if not isinstance(keys, dict):
            raise UnreadableDocument(f"Statement {index + 1}: {operator} is not a JSON object.")
        for key, values in cast("dict[str, Any]", keys).items():
            row.append(
                compile_condition(operator, key, _texts(values), has_variables=has_variables)
            )
    return tuple(row)


def _texts(texts: Any) -> tuple[str, ...]:
    """Return one value or a list of values as texts; a boolean as JSON writes it."""
    values = cast("list[Any]", texts if isinstance(texts, list) else [texts])
    return tuple(
        value if isinstance(value, str) else json.dumps(value).strip('"') for value in values
    )
