"""Runs our rules alone over a template of which only the resources are written down."""

from __future__ import annotations

from typing import Any

from cfnlint.config import ConfigMixIn, ManualArgs
from cfnlint.decode.decode import decode_str
from cfnlint.rules import Match, Rules
from cfnlint.runner.template import run_template_by_data

from headrace.lint.inputs import remember_templates


def findings(resources: str, *, head: str = "", region: str = "us-east-1") -> list[Match]:
    """Return what our rules find."""
    remember_templates({})
    indented = "".join(f"  {line}\n" for line in resources.splitlines())
    template, errors = decode_str(
        f"AWSTemplateFormatVersion: '2010-09-09'\n{head}Resources:\n{indented}"
    )
    assert errors == [], errors
    rules = Rules.create_from_module("headrace.lint.rules")
    config = ConfigMixIn([], **ManualArgs(regions=[region]))
    return list(run_template_by_data(template, config, rules))  # type: ignore[arg-type]


def found(resources: str, **options: Any) -> list[str]:
    """Return the ids of what our rules find."""
    return [match.rule.id for match in findings(resources, **options)]
