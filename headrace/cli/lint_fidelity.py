"""The rules of `headrace lint --local`: what headrace would refuse in a template, only store, or ignore."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, cast

from cfnlint.rules import CloudFormationLintRule, RuleMatch

from headrace.services.cloudformation.errors import TemplateError
from headrace.services.cloudformation.fidelity import fidelity_of
from headrace.services.cloudformation.resources import resource_type
from headrace.services.cloudformation.template.template import Template, template_of

_SAM = "AWS::Serverless::"
_DOES = {
    "stored": "headrace stores it and does not act on it",
    "ignored": "headrace ignores it",
}


def _template(cfn: Any) -> Template | None:
    """Return the template as headrace's CloudFormation parses it; None when cfn-lint's own rules refuse it."""
    try:
        template = template_of("", cast("dict[str, Any]", cfn.template))
    except TemplateError:
        return None
    whole = all(isinstance(one, dict) and "Type" in one for one in template.resources.values())
    return template if whole else None


class UnknownHere(CloudFormationLintRule):
    """E9080."""

    id = "E9080"
    shortdesc = "headrace does not know a resource type"
    description = "AWS may: the stack deploys there, and fails on headrace before anything is made."
    source_url = "docs/conformance/resource-types.md"
    tags: ClassVar[list[str]] = ["headrace"]  # pyright: ignore[reportIncompatibleVariableOverride]

    def match(self, cfn: Any) -> list[RuleMatch]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the resources that headrace refuses."""
        template = _template(cfn)
        return [
            RuleMatch(["Resources", name, "Type"], f"headrace does not know {one['Type']}")
            for name, one in (template.resources.items() if template else ())
            if not str(one["Type"]).startswith(_SAM) and resource_type(str(one["Type"])) is None
        ]


class NotActedOnHere(CloudFormationLintRule):
    """W9080."""

    id = "W9080"
    shortdesc = "headrace stores or ignores a property without acting on it"
    description = "AWS acts on it: what is tested on headrace does not show it."
    source_url = UnknownHere.source_url
    tags: ClassVar[list[str]] = ["headrace"]  # pyright: ignore[reportIncompatibleVariableOverride]

    def match(self, cfn: Any) -> list[RuleMatch]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the properties that the fidelity report lists."""
        template = _template(cfn)
        return list(self._rows(template)) if template else []

    def _rows(self, template: Template) -> Iterator[RuleMatch]:
        for row in fidelity_of(template):
            path: list[str | int] = ["Resources", row["resource"]]
            if row["property"]:
                path += ["Properties", *row["property"].split(".")]
            does = row.get("remark") or _DOES[row["level"]]
            named = ".".join(filter(None, (row["type"], row["property"])))
            yield RuleMatch(path, f"{named}: {does}")
