"""A template's rules: what it asserts about its parameters."""

from __future__ import annotations

from headrace.core.values import get_list
from headrace.services.cloudformation.errors import TemplateError
from headrace.services.cloudformation.template.intrinsics import Scope, evaluate
from headrace.services.cloudformation.template.template import Template


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
