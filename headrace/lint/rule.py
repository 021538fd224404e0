"""The base of every rule: its id, reason, address, two examples, and the check that cfn-lint runs."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from cfnlint.rules import CloudFormationLintRule, RuleMatch

from headrace.lint.template import Resource, Template


@dataclass(frozen=True, slots=True)
class Finding:
    """A defect: the resource that has it, the property where it shows, and one sentence."""

    resource: Resource
    message: str
    members: tuple[str | int, ...] = ()


class StreamingRule(CloudFormationLintRule):
    """A rule over a whole template. An id with E is what AWS refuses or what cannot work; with W, a hazard.

    Attributes:
        shortdesc: what is wrong, in a sentence.
        description: the reason.
        source_url: AWS's page that says so.
        bad, good: examples in YAML, the resources of a template: it finds something in the first alone.
        region: whose quotas hold; the first that cfn-lint is given.
    """

    id = ""
    tags: ClassVar[list[str]] = ["streaming", "headrace"]  # pyright: ignore[reportIncompatibleVariableOverride]
    bad: ClassVar[str] = ""
    good: ClassVar[str] = ""
    region: str = "us-east-1"

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield what is wrong in a template."""
        raise NotImplementedError

    def match(self, cfn: Any) -> list[RuleMatch]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the findings as cfn-lint wants them."""
        regions = cast("list[str]", cfn.regions or [])
        self.region = regions[0] if regions else "us-east-1"
        body = cast("dict[str, Any]", cfn.template)
        template = Template(body, _given(cfn), str(cfn.filename or ""))
        return [
            RuleMatch(found.resource.path(*found.members), found.message)
            for found in self.check(template)
            # What is found in a neighbour's template is reported there.
            if found.resource.template is template
        ]


def _given(cfn: Any) -> dict[str, Any]:
    """Return the parameters' values that cfn-lint was given."""
    merged: dict[str, Any] = {}
    for one in cfn.context.parameter_sets or ():
        merged.update(one.parameters)
    return merged
