"""The entry point of the CDK app: adds the four stacks of the flights, or fewer, or the two of the devices.

Run it with `cd cdk && npx cdk synth`, or with `npm --prefix cdk run cdk -- synth` from the repository's root.

When nothing that it reads has changed, it leaves the last assembly as it is (`cdk/last_assembly.py`).

Context (`-c name=value`): `pipeline`, `flights` or `devices` (devices by MQTT, alerts, a Spark job: the options of EMR
hold for it too, the others do not); `emr_subnet_id`, the subnet of the
Spark cluster; without it EMR takes the default VPC;
`emr_release`, such as `emr-7.13.0`, instead of the newest release with Spark 4.0;
`elastic=true`, shards of `flights` that follow its load, or `elastic=5` to look every five seconds instead of minutely;
`aggregate=true` and `redrive=true`, the processing stack's options; `delivery`, where enriched flights go: `parquet`,
`iceberg`, `opensearch` (a domain of the stack), `redshift` (a cluster of the stack), or `http` with `delivery_url`;
`spark_steps`, jobs of `spark_jobs/` that run as steps on deployment, in this order, each with its options, such as
`speed_view, fleet_enrich --planes s3://bucket/planes/, aircraft_days --output kinesis://sessions`; `leave_out`, the
stages that a cloud cannot run, separated by commas: `processing`, `delivery`, `analytics`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
if __name__ == "__main__":
    # As a script, Python looks in this folder, where no package `cdk` is.
    sys.path.insert(0, str(_HERE.parent))
# jsii works with Node 20, but prints a large warning about it.
os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")

_assembly = None
if __name__ == "__main__" and (_folder := os.environ.get("CDK_OUTDIR")):
    from cdk.last_assembly import Assembly

    _assembly = Assembly(Path(_folder), os.environ)
    if _assembly.is_current():
        sys.exit()
    _assembly.forget()

import aws_cdk as cdk  # noqa: E402 - the path and the environment come first

# Keep our roles readable: merge equal statements, and use only this partition's names.
CONTEXT: dict[str, Any] = {
    "@aws-cdk/aws-iam:minimizePolicies": True,
    "@aws-cdk/core:checkSecretUsage": True,
    # Exports protect a stream that another stack reads against deletion.
    "@aws-cdk/core:defaultCrossStackReferences": "strong",
    "@aws-cdk/core:target-partitions": ["aws"],
    "@aws-cdk/aws-s3:createDefaultLoggingPolicy": True,
    "@aws-cdk/aws-lambda:useCdkManagedLogGroup": True,
}


# The outputs that no other stack reads.
STAGES = ("processing", "delivery", "analytics")
PIPELINES = ("flights", "devices")


def build(app: cdk.App) -> list[cdk.Stack]:
    """Add the pipeline's stacks to `app`, except those in `leave_out`, upstream first, and return them."""
    from cdk.nag_suppressions import acknowledge
    from cdk.parts.python_packages import RELEASE
    from cdk.parts.spark_jobs import parse_steps
    from cdk.stacks.analytics import AnalyticsStack
    from cdk.stacks.delivery import DeliveryStack
    from cdk.stacks.devices import DevicesStack
    from cdk.stacks.ingest import IngestStack
    from cdk.stacks.processing import ProcessingStack

    pipeline = app.node.try_get_context("pipeline") or "flights"
    if pipeline not in PIPELINES:
        raise ValueError(f"pipeline is one of {', '.join(PIPELINES)}, not {pipeline!r}.")
    left_out = _left_out(app)
    if pipeline == "devices":
        devices = DevicesStack(app, "headrace-devices")
        stacks: list[cdk.Stack] = [devices]
        if "analytics" not in left_out:
            analytics = AnalyticsStack(
                app,
                "headrace-analytics",
                enriched=devices.telemetry,
                job="device_sessions",
                table="sessions/",
                subnet_id=app.node.try_get_context("emr_subnet_id"),
                release=app.node.try_get_context("emr_release") or RELEASE,
            )
            stacks.append(analytics)
        acknowledge(app)
        return stacks
    ingest = IngestStack(app, "headrace-ingest", elastic_period_s=_elastic_period_s(app))
    stacks = [ingest]
    if "processing" not in left_out:
        stacks.append(
            ProcessingStack(
                app,
                "headrace-processing",
                flights=ingest.flights,
                enriched=ingest.enriched,
                aggregate=_is_on(app, "aggregate"),
                redrive=_is_on(app, "redrive"),
            )
        )
    if "delivery" not in left_out:
        stacks.append(
            DeliveryStack(
                app,
                "headrace-delivery",
                enriched=ingest.enriched,
                destination=app.node.try_get_context("delivery") or "parquet",
                url=app.node.try_get_context("delivery_url") or "",
            )
        )
    if "analytics" not in left_out:
        stacks.append(
            AnalyticsStack(
                app,
                "headrace-analytics",
                enriched=ingest.enriched,
                subnet_id=app.node.try_get_context("emr_subnet_id"),
                release=app.node.try_get_context("emr_release") or RELEASE,
                steps=parse_steps(app.node.try_get_context("spark_steps") or ""),
            )
        )
    acknowledge(app)
    return stacks


def _left_out(app: cdk.App) -> set[str]:
    """Return the stages that the context leaves out. Raises ValueError for an unknown name."""
    names = str(app.node.try_get_context("leave_out") or "").split(",")
    left_out = {name.strip() for name in names} - {""}
    unknown = sorted(left_out - set(STAGES))
    if unknown:
        raise ValueError(
            f"leave_out names {', '.join(unknown)}: the stages are {', '.join(STAGES)}."
        )
    return left_out


def _elastic_period_s(app: cdk.App) -> int | None:
    """Return how often the load of `flights` is looked at; None: never. Raises ValueError for another word."""
    word = str(app.node.try_get_context("elastic") or "false").lower()
    if word in ("true", "false"):
        return 60 if word == "true" else None
    if not word.isdecimal():
        raise ValueError(f"elastic is true, false, or a period in seconds, not {word!r}.")
    return int(word)


def _is_on(app: cdk.App, name: str) -> bool:
    return str(app.node.try_get_context(name)).lower() == "true"


def new_app(outdir: str | None = None) -> cdk.App:
    """Return an app with this repository's settings, without stacks."""
    return cdk.App(outdir=outdir, post_cli_context=CONTEXT, analytics_reporting=False)


if __name__ == "__main__":
    the_app = new_app()
    build(the_app)
    the_app.synth()
    if _assembly is not None:
        _assembly.keep()
