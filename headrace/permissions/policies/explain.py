"""Explains a decision: for every statement of every policy, whether it applied, and if not, which part differs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headrace.permissions.policies.conditions import Condition
from headrace.permissions.policies.context import values_of
from headrace.permissions.policies.document import Statement
from headrace.permissions.policies.evaluate import RESOURCE, denial, evaluate, layers_of
from headrace.permissions.policies.model import (
    Access,
    Decision,
    Layer,
    NamedPolicy,
    Policies,
    Principal,
)
from headrace.permissions.policies.principals import Grant, grant_of
from headrace.permissions.policies.texts import Values

Verdict = Literal["allows", "denies", "does not apply"]


@dataclass(frozen=True, slots=True)
class StatementVerdict:
    """A statement in an explanation: its layer, policy, number from 1, Sid, verdict and reason."""

    layer: Layer
    policy: str
    number: int
    sid: str
    verdict: Verdict
    reason: str

    def line(self) -> str:
        """Return the statement as one line of text."""
        name = f"{self.sid}, statement {self.number}" if self.sid else f"statement {self.number}"
        return f"{self.layer} {self.policy}, {name}: {self.verdict} ({self.reason})"


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision, AWS's sentence when it is a refusal, and the verdict of each statement."""

    decision: Decision
    sentence: str
    statements: tuple[StatementVerdict, ...]

    def lines(self) -> tuple[str, ...]:
        """Return the explanation as lines: the decision, the statements that applied, then the others."""
        order = sorted(self.statements, key=lambda statement: statement.verdict == "does not apply")
        first = self.sentence or f"Allowed by the {self.decision.layer}."
        return (first, *(f"  {statement.line()}" for statement in order))


def explain(principal: Principal, access: Access, policies: Policies) -> Explanation:
    """Return why the principal may or may not make the access. Pure."""
    decision = evaluate(principal, access, policies)
    values = values_of(principal, access)
    statements = tuple(
        _verdict(layer, policy, statement, _misfit(layer, statement, principal, access, values))
        for layer, policy in layers_of(policies)
        for statement in policy.document.statements
    )
    sentence = "" if decision.allowed else denial(principal, access, decision)
    return Explanation(decision, sentence, statements)


def _verdict(
    layer: Layer, policy: NamedPolicy, statement: Statement, misfit: str
) -> StatementVerdict:
    verdict: Verdict = "allows" if statement.effect == "Allow" else "denies"
    return StatementVerdict(
        layer,
        policy.name,
        statement.index + 1,
        statement.sid,
        "does not apply" if misfit else verdict,
        misfit or "principal, action, resource and conditions fit",
    )


def _misfit(
    layer: Layer, statement: Statement, principal: Principal, access: Access, values: Values
) -> str:
    """Return the first part of the statement that does not match; empty when all match."""
    if layer == RESOURCE and grant_of(statement, principal) is Grant.NONE:
        return f"Principal does not name {principal.arn or 'an anonymous caller'}"
    if not statement.has_action(access.action.lower()):
        name = "NotAction lists" if statement.not_actions else "Action does not list"
        return f"{name} {access.action}"
    if not statement.has_resource(access.resource, values):
        name = "NotResource matches" if statement.not_resources else "Resource does not match"
        return f"{name} {access.resource}"
    unmet = statement.unmet(values)
    return "" if unmet is None else _unmet(unmet, values)


def _unmet(condition: Condition, values: Values) -> str:
    actual = values(condition.key)
    expected = ", ".join(text.source for text in condition.values)
    has = f"is {', '.join(actual)}" if actual else "is not in the request"
    return f"{condition.operator} on {condition.key} wants {expected}, which {has}"
