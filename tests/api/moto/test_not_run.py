"""What nothing runs here is refused by name, instead of an outcome that moto makes up."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.moto.patches import not_run
from tests.support.moto_lab import MotoLab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[MotoLab]:
    with MotoLab(tmp_path / "moto") as lab:
        yield lab


def test_a_job_run_is_refused_and_leaves_nothing(lab: MotoLab) -> None:
    client = lab.client("emr-containers")
    provider = {"type": "EKS", "id": "eks", "info": {"eksInfo": {"namespace": "n"}}}
    lab.client("eks").create_cluster(
        name="eks", roleArn="arn:aws:iam::000000000000:role/eks", resourcesVpcConfig={}
    )
    made = client.create_virtual_cluster(name="v", containerProvider=provider, clientToken="t")
    with pytest.raises(
        ClientError, match="headrace does not run job runs of EMR on EKS"
    ) as refusal:
        client.start_job_run(
            virtualClusterId=made["id"],
            clientToken="t",
            executionRoleArn="arn:aws:iam::000000000000:role/job",
            releaseLabel="emr-7.5.0-latest",
            jobDriver={"sparkSubmitJobDriver": {"entryPoint": "s3://code/none.py"}},
        )
    assert refusal.value.response["Error"]["Code"] == "NotImplemented"
    assert client.list_job_runs(virtualClusterId=made["id"])["jobRuns"] == []


@pytest.mark.parametrize(
    ("service", "operation", "params", "sentence"),
    [
        ("glue", "start_job_run", {"JobName": "j"}, "headrace does not run Glue's jobs"),
        ("glue", "start_crawler", {"Name": "c"}, "headrace does not run Glue's crawlers"),
        ("glue", "start_trigger", {"Name": "t"}, "headrace does not run Glue's triggers"),
        ("quicksight", "create_ingestion", {"AwsAccountId": "000000000000", "DataSetId": "d", "IngestionId": "i"},
         "no data would be imported"),
        ("codebuild", "start_build", {"projectName": "p"}, "headrace runs no containers"),
        ("ecs", "run_task", {"taskDefinition": "t"}, "headrace runs no containers"),
        ("dms", "start_replication_task",
         {"ReplicationTaskArn": "a", "StartReplicationTaskType": "start-replication"}, "headrace cdc"),
        ("rds-data", "execute_statement", {"resourceArn": "arn:aws:rds:x", "secretArn": "arn:aws:s:x", "sql": "s"},
         "headrace has no database behind RDS"),
        ("comprehend", "detect_sentiment", {"Text": "a", "LanguageCode": "en"}, "headrace has no models"),
        ("polly", "synthesize_speech", {"OutputFormat": "mp3", "Text": "t", "VoiceId": "Amy"}, "does not run Polly"),
        ("datasync", "start_task_execution", {"TaskArn": "arn:aws:datasync:us-east-1:000000000000:task/task-0"},
         "nothing would be copied"),
        ("rds", "start_export_task", {"ExportTaskIdentifier": "e", "SourceArn": "arn:aws:rds:us-east-1:0:snapshot:s",
         "S3BucketName": "b", "IamRoleArn": "arn:aws:iam::0:role/r", "KmsKeyId": "k"}, "headrace has no database"),
        ("codepipeline", "start_pipeline_execution", {"name": "p"}, "headrace does not run CodePipeline"),
        ("s3control", "create_access_point", {"AccountId": "000000000000", "Name": "point", "Bucket": "lake"},
         "no requests by access points"),
        ("s3control", "create_multi_region_access_point", {"AccountId": "000000000000", "ClientToken": "t",
         "Details": {"Name": "point", "Regions": [{"Bucket": "lake"}]}}, "no requests by access points"),
        ("fis", "start_experiment", {"experimentTemplateId": "e", "clientToken": "t"}, "no fault would be injected"),
        ("kinesisvideo", "get_data_endpoint", {"APIName": "PUT_MEDIA", "StreamName": "v"}, "headrace stores no video"),
        ("osis", "create_pipeline", {"PipelineName": "pipe", "MinUnits": 1, "MaxUnits": 1,
         "PipelineConfigurationBody": "version: 2"}, "deliver to the domain with Firehose"),
        ("dynamodb", "export_table_to_point_in_time", {"TableArn": "arn:aws:dynamodb:us-east-1:000000000000:table/tab",
         "S3Bucket": "lake"}, "headrace does not export tables"),
        ("dynamodb", "import_table", {"S3BucketSource": {"S3Bucket": "lake"}, "InputFormat": "CSV",
         "TableCreationParameters": {"TableName": "tab", "AttributeDefinitions": [], "KeySchema": [
             {"AttributeName": "id", "KeyType": "HASH"}]}}, "headrace does not import tables"),
        ("logs", "create_export_task", {"logGroupName": "g", "fromTime": 0, "to": 1, "destination": "lake"},
         "subscribe a delivery stream"),
        ("logs", "start_live_tail", {"logGroupIdentifiers": ["arn:aws:logs:us-east-1:000000000000:log-group:g"]},
         "aws logs tail --follow"),
        ("xray", "get_service_graph", {"StartTime": 0, "EndTime": 1}, "draws no graph of services"),
        ("xray", "get_trace_graph", {"TraceIds": ["1-00000001-000000000000000000000000"]}, "draws no graph"),
        ("glue", "create_session", {"Id": "s", "Role": "r", "Command": {"Name": "glueetl"}}, "Glue's sessions"),
        ("glue", "create_dev_endpoint", {"EndpointName": "e", "RoleArn": "r"}, "development endpoints"),
        ("codedeploy", "create_deployment", {"applicationName": "a"}, "CodeDeploy's deployments"),
        ("connectcampaigns", "start_campaign", {"id": "c"}, "runs no campaigns"),
        ("datapipeline", "activate_pipeline", {"pipelineId": "p"}, "Data Pipeline's pipelines"),
        ("ec2-instance-connect", "send_ssh_public_key", {"InstanceId": "i-0123456789abcdef0", "InstanceOSUser": "u",
         "SSHPublicKey": "k" * 256}, "no machines"),
        ("ecr", "start_image_scan", {"repositoryName": "re", "imageId": {"imageTag": "t"}}, "scans no images"),
        ("iot", "create_job", {"jobId": "j", "targets": ["arn:aws:iot:us-east-1:000000000000:thing/t"]}, "IoT's jobs"),
        ("medialive", "start_channel", {"ChannelId": "c"}, "no media would flow"),
        ("mediaconnect", "start_flow", {"FlowArn": "arn:aws:mediaconnect:f"}, "no media would flow"),
        ("pinpoint", "put_event_stream", {"ApplicationId": "a", "WriteEventStream": {
            "DestinationStreamArn": "arn:aws:kinesis:us-east-1:000000000000:stream/s", "RoleArn": "r"}},
         "none would reach the stream"),
        ("resource-groups", "start_tag_sync_task", {"Group": "arn:g", "TagKey": "k", "TagValue": "v",
         "RoleArn": "arn:aws:iam::000000000000:role/r"}, "tag-sync tasks"),
        ("sagemaker", "start_notebook_instance", {"NotebookInstanceName": "n"}, "notebooks"),
        ("timestream-query", "create_scheduled_query", {
            "Name": "n", "QueryString": "SELECT 1", "ScheduleConfiguration": {"ScheduleExpression": "rate(1 hour)"},
            "NotificationConfiguration": {"SnsConfiguration": {"TopicArn": "t"}}, "ScheduledQueryExecutionRoleArn": "r",
            "ErrorReportConfiguration": {"S3Configuration": {"BucketName": "lake"}}}, "query them with Athena"),
        ("timestream-query", "query", {"QueryString": "SELECT 1"}, "query them with Athena"),
        ("kinesisanalyticsv2", "start_application", {"ApplicationName": "a"}, "headrace sql"),
        ("sagemaker-runtime", "invoke_endpoint", {"EndpointName": "e", "Body": b"x"}, "headrace has no models"),
    ],
)  # fmt: skip
def test_what_nothing_runs_is_refused_by_name(
    lab: MotoLab, service: str, operation: str, params: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ClientError, match=sentence) as refusal:
        getattr(lab.client(service), operation)(**params)
    assert refusal.value.response["Error"]["Code"] == "NotImplemented"


def test_every_operation_of_the_table_is_motos() -> None:
    for name in not_run.MODULES:
        not_run.refuse_runs(importlib.import_module(name))
