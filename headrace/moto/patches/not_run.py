"""Refuses what nothing runs here: jobs, tasks and inferences for which moto makes up an outcome, or never ends.

Each refusal names what to use instead, where there is something. Definitions (jobs, projects, clusters) are stored;
those which AWS would act on by itself say that nothing does here (`headrace.moto.without_effect`).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

from headrace.aws.calls.errors import AwsError

_MODELS = (
    "headrace has no models: it does not {what}. In tests, give the caller an endpoint of its own."
)
_NO_CONTAINER = "headrace runs no containers: {what}."
# moto's module of responses -> its class, and for each method the sentence.
_NOT_RUN: dict[str, tuple[str, dict[str, str]]] = {
    "moto.emrcontainers.responses": (
        "EMRContainersResponse",
        {
            "start_job_run": (
                "headrace does not run job runs of EMR on EKS: run the same sparkSubmit driver as a step of EMR or as "
                "a job run of EMR Serverless."
            )
        },
    ),
    "moto.glue.responses": (
        "GlueResponse",
        {
            "start_job_run": (
                "headrace does not run Glue's jobs: run the script as a step of EMR or as a job run of EMR Serverless, "
                "without awsglue."
            ),
            "start_crawler": (
                "headrace does not run Glue's crawlers: create the table by a template, by Glue's CreateTable or by "
                "Athena's CREATE EXTERNAL TABLE."
            ),
            "start_workflow_run": "headrace does not run Glue's workflows.",
            "start_trigger": "headrace does not run Glue's triggers: it runs none of the jobs that they would start.",
            "create_session": (
                "headrace does not run Glue's sessions: run the statements as a step of EMR, or in a local PySpark."
            ),
            "create_dev_endpoint": "headrace does not run Glue's development endpoints: use a local PySpark.",
        },
    ),
    "moto.quicksight.responses": (
        "QuickSightResponse",
        {"create_ingestion": "headrace does not run QuickSight's ingestions: no data would be imported."},
    ),
    "moto.codebuild.responses": (
        "CodeBuildResponse",
        {"start_build": _NO_CONTAINER.format(what="it does not run CodeBuild's builds")},
    ),
    "moto.ecs.responses": (
        "EC2ContainerServiceResponse",
        {
            "run_task": _NO_CONTAINER.format(what="it does not run ECS' tasks"),
            "start_task": _NO_CONTAINER.format(what="it does not run ECS' tasks"),
        },
    ),
    "moto.dms.responses": (
        "DatabaseMigrationServiceResponse",
        {
            "start_replication_task": (
                "headrace does not run DMS' tasks: `headrace cdc` brings a PostgreSQL's changes into a stream, with "
                "DMS' envelope if you like."
            )
        },
    ),
    "moto.codedeploy.responses": (
        "CodeDeployResponse",
        {
            "create_deployment": (
                "headrace does not run CodeDeploy's deployments by its API: a stack's"
                " DeploymentPreference shifts an alias."
            )
        },
    ),
    "moto.connectcampaigns.responses": (
        "ConnectCampaignServiceResponse",
        dict.fromkeys(("start_campaign", "resume_campaign"), "headrace calls nobody: it runs no campaigns."),
    ),
    "moto.datapipeline.responses": (
        "DataPipelineResponse",
        {"activate_pipeline": "headrace does not run Data Pipeline's pipelines."},
    ),
    "moto.ec2instanceconnect.responses": (
        "Ec2InstanceConnectResponse",
        {"send_ssh_public_key": "headrace has no machines: there is none to connect to."},
    ),
    "moto.ecr.responses": (
        "ECRResponse",
        {"start_image_scan": "headrace scans no images: there would be no findings."},
    ),
    "moto.greengrass.responses": (
        "GreengrassResponse",
        {"create_deployment": "headrace has no Greengrass cores: nothing would be deployed."},
    ),
    "moto.iot.responses": (
        "IoTResponse",
        {"create_job": "headrace does not run IoT's jobs: no device would hear of it. Publish to a topic instead."},
    ),
    "moto.medialive.responses": (
        "MediaLiveResponse",
        {"start_channel": "headrace does not run MediaLive's channels: no media would flow."},
    ),
    "moto.mediaconnect.responses": (
        "MediaConnectResponse",
        {"start_flow": "headrace does not run MediaConnect's flows: no media would flow."},
    ),
    "moto.pinpoint.responses": (
        "PinpointResponse",
        {"put_event_stream": "headrace has no events of Pinpoint: none would reach the stream."},
    ),
    "moto.resourcegroups.responses": (
        "ResourceGroupsResponse",
        {"start_tag_sync_task": "headrace does not run tag-sync tasks: no resource would be tagged."},
    ),
    "moto.rdsdata.responses": (
        "RDSDataServiceResponse",
        {"execute_statement": "headrace has no database behind RDS: it does not run the Data API's statements."},
    ),
    "moto.rds.responses": (
        "RDSResponse",
        {"start_export_task": "headrace has no database behind RDS: it does not export snapshots to S3."},
    ),
    "moto.datasync.responses": (
        "DataSyncResponse",
        {"start_task_execution": "headrace does not run DataSync's tasks: nothing would be copied."},
    ),
    "moto.s3control.responses": (
        "S3ControlResponse",
        dict.fromkeys(
            ("create_access_point", "create_multi_region_access_point"),
            "headrace takes no requests by access points: name the bucket in the requests instead.",
        ),
    ),
    "moto.codepipeline.responses": (
        "CodePipelineResponse",
        {"start_pipeline_execution": "headrace does not run CodePipeline's pipelines."},
    ),
    "moto.fis.responses": (
        "FISResponse",
        {"start_experiment": "headrace does not run FIS' experiments: no fault would be injected."},
    ),
    "moto.ssm.responses": (
        "SimpleSystemManagerResponse",
        {"send_command": "headrace has no instances: it does not run Systems Manager's commands."},
    ),
    "moto.sagemaker.responses": (
        "SageMakerResponse",
        {
            name: _NO_CONTAINER.format(what="it does not run SageMaker's jobs, pipelines and notebooks")
            for name in (
                "create_training_job", "create_processing_job", "create_transform_job", "start_pipeline_execution",
                "create_auto_ml_job_v2", "create_compilation_job", "create_hyper_parameter_tuning_job",
                "start_notebook_instance",
            )
        },
    ),
    "moto.sagemakerruntime.responses": (
        "SageMakerRuntimeResponse",
        {
            name: _MODELS.format(what="answer for SageMaker's endpoints")
            for name in ("invoke_endpoint", "invoke_endpoint_async")
        },
    ),
    "moto.bedrock.responses": (
        "BedrockResponse",
        {"create_model_customization_job": _MODELS.format(what="train Bedrock's models")},
    ),
    "moto.dynamodb.responses": (
        "DynamoHandler",
        {
            "export_table_to_point_in_time": (
                "headrace does not export tables to S3: scan the table, or send its changes to a stream and Firehose."
            ),
            "import_table": "headrace does not import tables from S3: create the table and write its items.",
        },
    ),
    "moto.logs.responses": (
        "LogsResponse",
        {
            "create_export_task": (
                "headrace does not export log groups to S3: subscribe a delivery stream to the group."
            ),
            "start_live_tail": (
                "headrace does not run Live Tail: `aws logs tail --follow` shows a group's events as they come."
            ),
        },
    ),
    "moto.xray.responses": (
        "XRayResponse",
        dict.fromkeys(
            ("service_graph", "trace_graph"),
            "headrace draws no graph of services: it keeps segments, which BatchGetTraces returns.",
        ),
    ),
    "moto.kinesisvideo.responses": (
        "KinesisVideoResponse",
        {"get_data_endpoint": "headrace stores no video: there is no endpoint to which media could be put."},
    ),
    "moto.kinesisvideoarchivedmedia.responses": (
        "KinesisVideoArchivedMediaResponse",
        dict.fromkeys(
            ("get_hls_streaming_session_url", "get_dash_streaming_session_url", "get_clip"),
            "headrace stores no video: there is nothing to play.",
        ),
    ),
    "moto.osis.responses": (
        "OpenSearchIngestionResponse",
        {
            "create_pipeline": (
                "headrace does not run OpenSearch Ingestion's pipelines: deliver to the domain with Firehose, or by a "
                "function."
            )
        },
    ),
    "moto.timestreamwrite.responses": (
        "TimestreamWriteResponse",
        {
            **dict.fromkeys(
                ("query", "create_scheduled_query"),
                "headrace does not run Timestream's queries: deliver the records to S3 too, and query them with"
                " Athena.",
            )
        },
    ),
    "moto.polly.responses": ("PollyResponse", {"speech": _MODELS.format(what="run Polly")}),
    "moto.comprehend.responses": (
        "ComprehendResponse",
        {
            name: _MODELS.format(what="run Comprehend")
            for name in (
                "detect_pii_entities", "detect_key_phrases", "detect_sentiment", "start_flywheel_iteration",
                "start_pii_entities_detection_job", "start_key_phrases_detection_job",
                "start_sentiment_detection_job", "start_targeted_sentiment_detection_job",
                "start_dominant_language_detection_job", "start_entities_detection_job", "start_topics_detection_job",
                "start_document_classification_job", "start_events_detection_job",
            )
        },
    ),
    "moto.rekognition.responses": (
        "RekognitionResponse",
        {
            name: _MODELS.format(what="run Rekognition")
            for name in (
                "detect_labels", "detect_text", "detect_custom_labels", "compare_faces", "start_face_search",
                "start_text_detection",
            )
        },
    ),
    "moto.textract.responses": (
        "TextractResponse",
        {
            name: _MODELS.format(what="run Textract")
            for name in ("detect_document_text", "start_document_text_detection", "start_document_analysis")
        },
    ),
    "moto.transcribe.responses": (
        "TranscribeResponse",
        {
            name: _MODELS.format(what="run Transcribe")
            for name in ("start_transcription_job", "start_medical_transcription_job")
        },
    ),
}  # fmt: skip
MODULES = tuple(_NOT_RUN)


def refuse_runs(module: Any) -> None:
    """Refuse a module's operations that run something."""
    name, sentences = _NOT_RUN[module.__name__]
    response = getattr(module, name)
    for method, sentence in sentences.items():
        getattr(response, method)  # a name that moto does not have fails here
        setattr(response, method, _refusing(sentence))


def _refusing(sentence: str) -> Any:
    def refuse(_self: Any) -> None:
        raise AwsError("NotImplemented", sentence, 501)

    return refuse
