"""Lists which functions change each module of moto's: where it differs from AWS, lacks a call, has no bounds."""

from __future__ import annotations

from headrace.moto import without_effect
from headrace.moto.bounds import bound_loops, patch_api_documents, patch_query_parser, patch_yaml
from headrace.moto.current_cloud import use_clock
from headrace.moto.patches import (
    appconfig,
    appregistry,
    autoscaling,
    backup,
    batch,
    budgets,
    cloudfront,
    cloudtrail,
    codebuild,
    codedeploy,
    cognito_identity,
    core,
    discovery,
    ec2,
    ec2_tokens,
    ecr,
    ecs,
    elasticache,
    emrcontainers,
    kafka,
    kms,
    kms_uses,
    known_names,
    left_out,
    not_run,
    rds,
    repeated_tokens,
    s3,
    s3tables,
    sagemaker,
    secretsmanager,
    servicediscovery,
    system_tags,
    wafv2,
)
from headrace.moto.patching import Patch, Patches
from headrace.services import kinesisanalyticsv2 as kinesisanalyticsv2_patches
from headrace.services import opensearchserverless as opensearchserverless_patches
from headrace.services import scheduler as scheduler_patches
from headrace.services import ssm as ssm_patches
from headrace.services.apigateway import patches as apigateway_patches
from headrace.services.apigateway import stages
from headrace.services.apigateway.documentation import add_documentation
from headrace.services.apigateway.refusals import allow_any_status
from headrace.services.apigateway.stages import (
    add_deployments,
    allow_imports,
    allow_stage_updates,
    refuse_duplicates,
    show_deployments,
)
from headrace.services.athena import patches as athena_patches
from headrace.services.athena import query_calls
from headrace.services.cloudwatch import (
    alarm_actions,
    alarm_history,
    alarms,
    anomaly_detectors,
    metric_streams,
    put_metric_data,
)
from headrace.services.cloudwatch import patches as cloudwatch_patches
from headrace.services.cognito import patches as cognito_patches
from headrace.services.dynamodb import partiql_calls as dynamodb_partiql
from headrace.services.dynamodb import patches as dynamodb_patches
from headrace.services.dynamodb import quick as dynamodb_quick
from headrace.services.dynamodb import stream_consumers
from headrace.services.dynamodb import streams as dynamodb_streams
from headrace.services.dynamodb.expressions import patch_expressions
from headrace.services.events import checks as events_checks
from headrace.services.events import patches as events_patches
from headrace.services.events import put_events
from headrace.services.events import responses as events_responses
from headrace.services.glue import partition_indexes as glue_partition_indexes
from headrace.services.glue import patches as glue_patches
from headrace.services.glue import schema_versions as glue_schema_versions
from headrace.services.iam import entities as iam_entities
from headrace.services.iam import patches as iam_patches
from headrace.services.iam import sts_sessions as sts_sessions
from headrace.services.iot import patches as iot_patches
from headrace.services.iot.mqtt import shadows as iot_shadows
from headrace.services.logs import groups as log_groups
from headrace.services.logs import patches as logs_patches
from headrace.services.opensearch import patches as opensearch_patches
from headrace.services.pipes import patches as pipes_patches
from headrace.services.redshift import patches as redshift_patches
from headrace.services.sns import notifications as sns_notifications
from headrace.services.sns import patches as sns_patches
from headrace.services.sqs import patches as sqs_patches
from headrace.services.sqs import quick as sqs_quick
from headrace.services.stepfunctions import patches as stepfunctions_patches
from headrace.services.stepfunctions import starts as stepfunctions_starts

# Requests that are answered without moto's handlers in their plain form.
QUICK_CALLS = (
    *put_metric_data.QUICK_CALLS,
    *dynamodb_quick.QUICK_CALLS,
    *put_events.QUICK_CALLS,
    *log_groups.QUICK_CALLS,
    *sns_patches.QUICK_CALLS,
    *sqs_quick.QUICK_CALLS,
    *stepfunctions_starts.QUICK_CALLS,
    *sts_sessions.QUICK_CALLS,
)


_OWN = Patches(
    of_modules={
        "moto.acm.models": [system_tags.allow_on_certificates],
        "moto.apigateway.models": [
            apigateway_patches.validate_without_patterns,
            apigateway_patches.patch,
        ],
        "moto.apigateway.responses": [apigateway_patches.patch_responses],
        "moto.apigateway.urls": [add_documentation, allow_any_status],
        "moto.apigateway.utils": [patch_api_documents],
        "moto.apigatewayv2.models": [
            patch_yaml,
            stages.show_managed,
            refuse_duplicates,
            show_deployments,
        ],
        "moto.apigatewayv2.urls": [add_deployments],
        "moto.apigatewayv2.responses": [
            allow_stage_updates,
            allow_imports,
            stages.patch_responses,
        ],
        "moto.appconfig.urls": [appconfig.add_calls],
        "moto.applicationautoscaling.models": [autoscaling.refuse_malformed_ids],
        "moto.athena.models": [
            athena_patches.keep_creation_times,
            athena_patches.publish_metrics,
            athena_patches.show_glues_catalog,
        ],
        "moto.athena.responses": [
            athena_patches.allow_deletions,
            athena_patches.allow_updates,
            athena_patches.keep_statements,
            query_calls.run_queries,
        ],
        "moto.autoscaling.models": [autoscaling.undo_partial_groups],
        "moto.autoscaling.responses": [autoscaling.allow_updates],
        "moto.backup.models": [backup.forget_deleted_plans],
        "moto.batch.models": [
            batch.correct_environments,
            batch.describe_nodes,
            batch.allow_short_names,
            bound_loops,
        ],
        "moto.batch_simple.models": [bound_loops],
        "moto.budgets.responses": [budgets.allow_updates],
        "moto.cloudfront.responses": [cloudfront.delete_key_groups, cloudfront.keep_comments],
        "moto.cloudtrail.models": [cloudtrail.claim_no_delivery],
        "moto.cloudwatch.models": [use_clock, alarm_history.bound_histories],
        "moto.cloudwatch.responses": [
            alarm_history.add_calls,
            anomaly_detectors.add_calls,
            metric_streams.add_calls,
        ],
        "moto.codebuild.responses": [codebuild.check_by_model, codebuild.allow_updates],
        "moto.codedeploy.responses": [codedeploy.add_missing_calls, codedeploy.allow_updates],
        "moto.codepipeline.models": [system_tags.allow_on_pipelines],
        "moto.cognitoidentity.models": [cognito_identity.allow_renaming],
        "moto.cognitoidp.models": [
            cognito_patches.share_key,
            cognito_patches.name_users_first,
            cognito_patches.show_domains,
        ],
        "moto.cognitoidp.responses": [
            cognito_patches.allow_deletions,
            cognito_patches.call_triggers,
        ],
        "moto.core.parse": [patch_query_parser],
        "moto.dax.models": [bound_loops],
        "moto.directconnect.models": [bound_loops],
        "moto.dynamodb.responses": [patch_expressions, dynamodb_partiql.add_calls],
        "moto.ec2.models": [ec2.correct_networks],
        "moto.ec2.models.elastic_network_interfaces": [bound_loops],
        "moto.ec2.models.hosts": [bound_loops],
        "moto.ec2.models.instance_types": [ec2.load_tables_late],
        "moto.ec2.models.instances": [ec2.limit_instances],
        "moto.ec2.models.security_groups": [ec2.match_by_wildcards],
        "moto.ec2.models.spot_requests": [bound_loops],
        "moto.ec2.responses": [ec2_tokens.answer_again],
        "moto.ecr.models": [ecr.match_by_wildcards],
        "moto.ecr.responses": [ecr.refuse_login],
        "moto.ecs.models": [
            ecs.read_arns,
            ecs.find_own_clusters,
            ecs.show_fargate,
            bound_loops,
        ],
        "moto.ecs.responses": [ecs.refuse_others],
        "moto.elasticache.models": [elasticache.show_groups, bound_loops],
        "moto.elasticache.responses": [elasticache.allow_deletions, elasticache.allow_updates],
        "moto.emrcontainers.models": [use_clock, emrcontainers.hold_namespaces],
        "moto.emrcontainers.urls": [emrcontainers.add_tag_calls],
        "moto.events.models": [events_checks.match_in_time],
        "moto.events.responses": [events_responses.patch_responses],
        "moto.events.utils": [events_patches.patch_event_templates],
        "moto.glue.models": [
            glue_patches.match_tables_in_time,
            glue_patches.patch,
            glue_patches.show_connections,
            glue_schema_versions.take_own_arns,
            glue_schema_versions.compare_versions,
        ],
        "moto.glue.responses": [
            glue_patches.allow_deletions,
            glue_patches.allow_updates,
            glue_patches.add_classifiers,
            glue_schema_versions.add_calls,
            glue_partition_indexes.add_calls,
            glue_patches.allow_lone_conditions,
            glue_patches.patch_responses,
        ],
        "moto.glue.utils": [glue_patches.match_partitions_in_time],
        "moto.iam.access_control": [iam_patches.match_by_wildcards],
        "moto.iam.exceptions": [iam_entities.say_as_aws],
        "moto.iam.models": [iam_patches.refuse_as_aws, iam_entities.refuse_and_keep],
        "moto.iam.responses": [
            iam_entities.answer_as_aws,
            iam_patches.add_client_id_calls,
            iam_patches.keep_password_reset,
        ],
        "moto.iot.models": [
            iot_patches.match_by_wildcards,
            iot_patches.check_statements,
            iot_patches.name_endpoint,
            iot_patches.refuse_unknown_names,
        ],
        "moto.iotdata.models": [iot_shadows.announce_changes],
        "moto.iot.responses": [iot_patches.refuse_registration],
        "moto.iotdata.responses": [iot_patches.patch_data_plane],
        "moto.kafka.models": [kafka.report_missing_policies],
        "moto.kinesisanalyticsv2.responses": [kinesisanalyticsv2_patches.patch],
        "moto.kms.models": [
            use_clock,
            kms.correct_keys,
            kms.show_keys,
            kms.take_private_keys,
            kms.refuse_unusable_keys,
        ],
        "moto.kms.responses": [kms_uses.answer_uses, kms.date_aliases],
        "moto.memorydb.models": [bound_loops],
        "moto.opensearch.models": [opensearch_patches.patch],
        "moto.es.urls": [opensearch_patches.allow_updates],
        "moto.opensearchserverless.models": [
            opensearchserverless_patches.create_by_patterns,
            opensearchserverless_patches.keep_descriptions,
        ],
        "moto.opensearchserverless.responses": [
            opensearchserverless_patches.add_access_policies,
            opensearchserverless_patches.add_missing_calls,
        ],
        "moto.osis.models": [patch_yaml],
        "moto.pipes.models": [pipes_patches.patch],
        "moto.rds.models": [
            rds.undo_partial_clusters,
            rds.keep_subnet_groups,
            rds.store_no_classes,
            rds.replace_automatic_snapshots,
        ],
        "moto.rds.responses": [rds.lower_engines, rds.list_option_groups],
        "moto.redshift.models": [redshift_patches.patch],
        "moto.resourcegroups.models": [system_tags.allow_on_groups],
        "moto.s3.models": [s3.find_own_buckets],
        "moto.s3tables.models": [s3tables.keep_files],
        "moto.s3tables.responses": [s3tables.write_metadata],
        "moto.sagemaker.models": [bound_loops],
        "moto.sagemaker.responses": [sagemaker.allow_updates],
        "moto.scheduler.models": [use_clock, scheduler_patches.patch],
        "moto.scheduler.responses": [scheduler_patches.update_actions],
        "moto.servicecatalogappregistry.urls": [
            appregistry.add_missing_calls,
            appregistry.add_attribute_groups,
            appregistry.add_group_associations,
            appregistry.associate_own_stacks,
        ],
        "moto.servicediscovery.models": [servicediscovery.replace_instances],
        "moto.secretsmanager.exceptions": [secretsmanager.answer_as_aws],
        "moto.secretsmanager.models": [
            use_clock,
            secretsmanager.rotate_by_functions,
            secretsmanager.note_reads,
            secretsmanager.read_whole_arns,
            secretsmanager.follow_stages,
            secretsmanager.show_labels,
        ],
        "moto.secretsmanager.responses": [secretsmanager.end_windows, secretsmanager.check_names],
        "moto.sns.utils": [sns_notifications.patch_filter_policies],
        "moto.sqs.models": [sqs_patches.match_literal_prefixes],
        "moto.ssm.models": [ssm_patches.apply_bounds],
        "moto.stepfunctions.parser.asl.utils.json_path": [stepfunctions_patches.match_in_one_way],
        "moto.stepfunctions.responses": [stepfunctions_patches.patch],
        "moto.utilities.tagging_service": [system_tags.allow_on_tagging_service],
        "moto.wafv2.models": [wafv2.correct_web_acls],
        "xmltodict": [core.check_names_once],
    },
    at_start=[
        alarms.patch,
        alarm_actions.patch,
        core.patch,
        iam_patches.patch,
        dynamodb_patches.patch,
        stream_consumers.patch,
        dynamodb_streams.patch,
        sqs_patches.patch,
        sns_patches.patch,
        events_patches.patch,
        logs_patches.patch,
        cloudwatch_patches.patch,
        metric_streams.patch,
        ssm_patches.patch,
        iam_entities.patch_look_ups,
    ],
)
# For many modules each: what one mechanism changes.
_SHARED: tuple[tuple[tuple[str, ...], Patch], ...] = (
    (tuple(known_names.MODULES), known_names.refuse_known_names),
    (left_out.MODULES, left_out.fill_in),
    (not_run.MODULES, not_run.refuse_runs),
    (repeated_tokens.MODULES, repeated_tokens.answer_again),
    (without_effect.MODULES, without_effect.say_so),
    (discovery.MODULES, discovery.name_own_endpoint),
)
PATCHES = Patches(
    {
        **_OWN.of_modules,
        **{
            name: [
                *(patch for names, patch in _SHARED if name in names),
                *_OWN.of_modules.get(name, ()),
            ]
            for names, _ in _SHARED
            for name in names
        },
    },
    _OWN.at_start,
)
