"""Our own app under cdk-nag's AwsSolutions pack and `headrace lint`: every finding is mended, or kept with a reason."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Match, Template
from cdk_nag import AwsSolutionsChecks
from click.testing import CliRunner

from cdk.app import CONTEXT, build
from cdk.nag_suppressions import LINT, NAG, NAG_OF_OPENSEARCH, find
from headrace.cli.commands import headrace

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
STEP = "departures"


def whole_app(outdir: Path, **given: str) -> cdk.App:
    """Return the app with all its options, and others."""
    options = {"elastic": "true", "aggregate": "true", "redrive": "true", "spark_steps": STEP}
    options |= given
    app = cdk.App(
        outdir=str(outdir), post_cli_context={**CONTEXT, **options}, analytics_reporting=False
    )
    build(app)
    return app


def validate(app: cdk.App, outdir: Path) -> list[dict[str, Any]]:
    """Return what cdk-nag and the CDK's own check of templates report."""
    plugins = (AwsSolutionsChecks(app), cdk.CloudFormationValidatePlugin())
    cdk.Validations.of(app).add_plugins(*plugins)
    # The report stands in the folder either way.
    with contextlib.suppress(RuntimeError):
        app.synth()
    report: dict[str, Any] = json.loads((outdir / "validation-report.json").read_text())
    return report["pluginReports"]


def violations(app: cdk.App, outdir: Path) -> set[str]:
    """Return what cdk-nag finds, as rule at path; the CDK's own check finds nothing."""
    reports = validate(app, outdir)
    assert {one["pluginName"] for one in reports} <= {"AwsSolutions"}
    return {
        f"{one['ruleName']} at {construct['constructPath']}"
        for plugin in reports
        for one in plugin["violations"]
        for construct in one["violatingConstructs"]
    }


def test_cdk_nag_finds_nothing_that_has_no_reason(tmp_path: Path) -> None:
    app = whole_app(tmp_path)
    # That cdk-nag looks at all: this bucket has four defects.
    cdk.aws_s3.CfnBucket(app.node.find_child("headrace-ingest"), "Bare")  # type: ignore[arg-type]

    found = violations(app, tmp_path)

    assert {one for one in found if "Bare" not in one} == set()
    assert found != set()


def test_the_cdk_checks_the_templates_itself(tmp_path: Path) -> None:
    app = cdk.App(outdir=str(tmp_path), analytics_reporting=False)
    stack = cdk.Stack(app, "wrong")
    cdk.aws_s3.CfnBucket(stack, "Bucket").add_property_override("Bukket", "name")
    names = {one["pluginName"] for one in validate(app, tmp_path)}
    assert names == {"AwsSolutions", cdk.CloudFormationValidatePlugin.PLUGIN_NAME}


DELIVERIES = [
    {"delivery": "opensearch"},
    {"delivery": "http", "delivery_url": "https://example.com/in"},
]


@pytest.mark.parametrize("options", DELIVERIES, ids=lambda options: options["delivery"])
def test_cdk_nag_finds_nothing_in_another_delivery(tmp_path: Path, options: dict[str, str]) -> None:
    leave_out = {"leave_out": "processing, analytics"}
    app = cdk.App(
        outdir=str(tmp_path),
        post_cli_context={**CONTEXT, **leave_out, **options},
        analytics_reporting=False,
    )
    build(app)
    # That cdk-nag looks at all.
    cdk.aws_s3.CfnBucket(app.node.find_child("headrace-ingest"), "Bare")  # type: ignore[arg-type]

    found = violations(app, tmp_path)

    assert {one for one in found if "Bare" not in one} == set()
    assert found != set()
    if options["delivery"] == "opensearch":
        for path, findings in NAG_OF_OPENSEARCH.items():
            assert find(app, path) is not None, path
            assert all(len(reason) > 40 for reason in findings.values())


def test_the_delivery_to_an_iceberg_table_is_clean_too(tmp_path: Path) -> None:
    only = {"delivery": "iceberg", "leave_out": "processing, analytics"}
    app = whole_app(tmp_path, **only)
    # As above: without a finding there is no report to look into.
    cdk.aws_s3.CfnBucket(app.node.find_child("headrace-ingest"), "Bare")  # type: ignore[arg-type]
    found = violations(app, tmp_path)
    assert {one for one in found if "Bare" not in one} == set()
    assert found != set()
    code, output = lint(str(tmp_path / "headrace-delivery.template.json"))
    assert (code, output) == (0, "")


@pytest.mark.slow
def test_the_devices_are_clean_too(tmp_path: Path) -> None:
    app = whole_app(tmp_path, pipeline="devices", leave_out="analytics")
    cdk.aws_s3.CfnBucket(app.node.find_child("headrace-devices"), "Bare")  # type: ignore[arg-type]
    found = violations(app, tmp_path)
    assert {one for one in found if "Bare" not in one} == set()
    assert found != set()
    assert lint(str(tmp_path / "headrace-devices.template.json")) == (0, "")


@pytest.mark.slow
def test_cdk_nag_finds_nothing_in_the_delivery_to_redshift(tmp_path: Path) -> None:
    app = whole_app(tmp_path, delivery="redshift", leave_out="processing, analytics")
    cdk.aws_s3.CfnBucket(app.node.find_child("headrace-ingest"), "Bare")  # type: ignore[arg-type]

    assert {one for one in violations(app, tmp_path) if "Bare" not in one} == set()


def test_every_reason_is_for_a_construct_that_there_is_and_says_something(tmp_path: Path) -> None:
    other = {"delivery": "redshift", "leave_out": "processing, analytics"}
    apps = [
        whole_app(tmp_path / "parquet"),
        whole_app(tmp_path / "redshift", **other),
        whole_app(tmp_path / "devices", pipeline="devices", leave_out="analytics"),
    ]

    for path, findings in (*NAG.items(), *LINT.items()):
        assert any(find(app, path) is not None for app in apps), path
        assert all(len(reason) > 40 for reason in findings.values())


def lint(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(headrace, ["lint", "--only-streaming", *arguments])
    return result.exit_code, result.output


def test_headrace_lint_finds_nothing_in_our_own_app(tmp_path: Path) -> None:
    whole_app(tmp_path).synth()

    assert lint(str(tmp_path)) == (0, "")


def test_headrace_lint_finds_what_our_app_keeps_with_a_reason(assembly: Path) -> None:
    code, output = lint(str(assembly))
    assert (code, output) == (0, "")

    for path in assembly.glob("*.template.json"):
        template = json.loads(path.read_text())
        for resource in template["Resources"].values():
            resource.get("Metadata", {}).pop("cfn-lint", None)
        (assembly.parent / path.name).write_text(json.dumps(template))
    code, output = lint(*map(str, sorted(assembly.parent.glob("headrace-*.template.json"))))

    assert code == 4
    assert {word for word in output.split() if word.startswith("W9")} == {"W9006"}


def test_an_alarm_watches_how_far_a_function_is_behind(templates: dict[str, Template]) -> None:
    templates["processing"].has_resource_properties(
        "AWS::CloudWatch::Alarm",
        {
            "MetricName": "IteratorAge",
            "Namespace": "AWS/Lambda",
            "Threshold": 3_600_000,
            "TreatMissingData": "notBreaching",
            "Dimensions": [
                {
                    "Name": "FunctionName",
                    "Value": {"Ref": Match.string_like_regexp("EnrichFunction")},
                }
            ],
        },
    )


def test_the_nodes_read_the_jobs_own_objects_of_the_assets_bucket(
    templates: dict[str, Template],
) -> None:
    policies = templates["analytics"].find_resources("AWS::IAM::Policy")
    statements = [
        one
        for policy in policies.values()
        for one in policy["Properties"]["PolicyDocument"]["Statement"]
        if "cdk-hnb659fds-assets" in json.dumps(one)
    ]

    assert statements
    for statement in statements:
        assert "*" not in json.dumps([statement["Action"], statement["Resource"]])
