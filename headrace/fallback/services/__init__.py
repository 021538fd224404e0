"""Patches moto's services where they differ from AWS or cannot run for long."""

from __future__ import annotations

import functools
import importlib
import sys

# Modules of moto that are slow to import and not always used: the file here that patches each, and its function, which
# takes the module.
_LATER = {
    "moto.apigateway.models": ("rest_apis", "patch"),
    "moto.apigateway.responses": ("rest_apis", "patch_responses"),
    "moto.apigatewayv2.responses": ("updates", "apigatewayv2"),
    "moto.acm.models": ("system_tags", "acm"),
    "moto.athena.responses": ("gaps", "athena"),
    "moto.backup.models": ("gaps", "backup"),
    "moto.batch.models": ("networks", "batch"),
    "moto.codebuild.responses": ("gaps", "codebuild"),
    "moto.codedeploy.responses": ("gaps", "codedeploy"),
    "moto.cognitoidentity.models": ("updates", "cognito_identity"),
    "moto.codepipeline.models": ("system_tags", "pipelines"),
    "moto.cognitoidp.responses": ("gaps", "cognito"),
    "moto.ec2.models": ("networks", "ec2"),
    "moto.ecr.responses": ("gaps", "ecr"),
    "moto.elasticache.responses": ("gaps", "elasticache"),
    "moto.events.responses": ("gaps", "events"),
    "moto.glue.models": ("glue", "patch"),
    "moto.glue.responses": ("glue", "patch_responses"),
    "moto.iotdata.models": ("iot_rules", "patch"),
    "moto.kinesisanalyticsv2.responses": ("kinesis_analytics", "patch"),
    "moto.kms.models": ("gaps", "kms"),
    "moto.opensearch.models": ("opensearch", "patch"),
    "moto.opensearch.responses": ("updates", "elasticsearch"),
    "moto.rds.models": ("gaps", "rds"),
    "moto.redshift.models": ("redshift", "patch"),
    "moto.resourcegroups.models": ("system_tags", "resource_groups"),
    "moto.s3.models": ("gaps", "s3"),
    "moto.autoscaling.models": ("partial_creations", "autoscaling"),
    "moto.autoscaling.responses": ("updates", "autoscaling"),
    "moto.pipes.models": ("pipe_updates", "patch"),
    "moto.sagemaker.responses": ("updates", "sagemaker"),
    "moto.scheduler.models": ("time_of", "use_clock"),
    "moto.servicecatalogappregistry.models": ("gaps", "appregistry"),
    "moto.stepfunctions.responses": ("stepfunctions", "patch"),
    "moto.utilities.tagging_service": ("system_tags", "common"),
    "moto.wafv2.models": ("networks", "wafv2"),
}
_patched: set[str] = set()


@functools.cache
def patch_all() -> None:
    """Apply every patch. Imports most of the services; the caller holds `IMPORTING`."""
    from headrace.fallback.kept import pickles
    from headrace.fallback.services import (
        alarm_actions,
        cloudwatch,
        core,
        dynamodb,
        dynamodb_kinesis,
        dynamodb_streams,
        events,
        glue,  # noqa: F401 - gives its classes their stored names
        iam,
        logs,
        sns,
        sqs,
        ssm,
        sts,
    )

    for service in (
        alarm_actions, core, iam, dynamodb, dynamodb_kinesis, dynamodb_streams, sqs, sns, events, logs, cloudwatch,
        ssm, sts,
    ):  # fmt: skip
        service.patch()
    pickles.after_imports(patch_imported)


def patch_imported() -> None:
    """Patch modules that have been imported since the last call; quick when there are none."""
    for name, (file, function) in _LATER.items():
        if name in sys.modules and name not in _patched:
            _patched.add(name)
            patches = importlib.import_module(f"headrace.fallback.services.{file}")
            getattr(patches, function)(sys.modules[name])
