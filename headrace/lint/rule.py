"""The base class of every rule: id, reason, source, two examples, and the check that cfn-lint runs."""

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
    """A rule over a whole template. AWS refuses what an E rule finds, or it cannot work; a W rule finds hazards.

    Attributes:
        shortdesc: the defect, in a sentence.
        description: the reason.
        source_url: AWS's page that documents it.
        bad, good: a template's Resources in YAML, with the defect and without.
        region: the region whose quotas apply; the first that cfn-lint is given.
    """

    id = ""
    tags: ClassVar[list[str]] = ["streaming", "headrace"]  # pyright: ignore[reportIncompatibleVariableOverride]
    bad: ClassVar[str] = ""
    good: ClassVar[str] = ""
    region: str = "us-east-1"

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the defects of a template."""
        raise NotImplementedError

    def match(self, cfn: Any) -> list[RuleMatch]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the findings in cfn-lint's form."""
        regions = cast("list[str]", cfn.regions or [])
        self.region = regions[0] if regions else "us-east-1"
        body = cast("dict[str, Any]", cfn.template)
        template = Template(body, _read_parameters(cfn), str(cfn.filename or ""))
        return [
            RuleMatch(finding.resource.path(*finding.members), finding.message)
            for finding in self.check(template)
            # A defect in another template of the run is reported with that template.
            if finding.resource.template is template
        ]


def _read_parameters(cfn: Any) -> dict[str, Any]:
    """Return the parameter values that cfn-lint was given."""
    merged: dict[str, Any] = {}
    for one in cfn.context.parameter_sets or ():
        merged.update(one.parameters)
    return merged
