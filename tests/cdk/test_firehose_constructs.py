"""Every construct, option and processor of aws-cdk-lib's `aws_kinesisfirehose` deploys, and its records arrive.

`test_no_construct_is_left_out` holds the list against the module: a new version of aws-cdk-lib that has more fails.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pyarrow.orc
import pyarrow.parquet
import pytest
from aws_cdk import aws_glue as glue
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_kinesisfirehose as firehose
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secrets

from headrace.testing.clock import MovableClock
from headrace.testing.waiting import until
from tests.support.cloud import InProcessCloud
from tests.support.endpoint import Endpoint, endpoint
from tests.unit.firehose.destinations.test_deliveries import sound
from tests.unit.firehose.test_compress import read_hadoop, read_snappy_java

pytestmark = pytest.mark.slow
UPPER = """
import base64
def handler(event, context):
    def made(record):
        data = base64.b64encode(base64.b64decode(record["data"]).upper()).decode()
        return {"recordId": record["recordId"], "result": "Ok", "data": data}
    return {"records": [made(record) for record in event["records"]]}
"""
# What has no delivery stream of its own here: interfaces, values, and what a stream is made with or read by.
WITHOUT_A_STREAM = {
    "BackupMode", "CommonDestinationProps", "CommonDestinationS3Props", "Compression", "DataFormatConversionProps",
    "DataProcessorBindOptions", "DataProcessorConfig", "DataProcessorIdentifier", "DataProcessorProps",
    "DatadogEndpoint", "DatadogProps", "DecompressionProcessorCompressionFormat", "DecompressionProcessorOptions",
    "DeliveryStream", "DeliveryStreamAttributes", "DeliveryStreamGrants", "DeliveryStreamProps",
    "DestinationBindOptions", "DestinationConfig", "DestinationS3BackupProps",
    "DynamicPartitioningProps", "HiveJsonInputFormatProps", "HttpAttribute", "HttpBackupMode", "HttpBufferingHints",
    "HttpCompression", "HttpEndpointConfig", "HttpEndpointProps", "HttpRetryOptions", "InputFormat",
    "CloudWatchLogProcessorOptions", "JsonParsingEngine", "MetadataExtractionProcessorOptions",
    "OpenXJsonInputFormatProps", "OrcCompression", "OrcFormatVersion", "OrcOutputFormatProps", "OutputFormat",
    "ParquetCompression", "ParquetOutputFormatProps", "ParquetWriterVersion", "RecordDeAggregationProcessorOptions",
    "S3BucketProps", "SchemaConfiguration", "SchemaConfigurationBindOptions",
    "SchemaConfigurationFromCfnTableProps", "StreamEncryption",
    "StreamEncryptionType", "SubRecordType", "TimestampParser",
}  # fmt: skip
USED = {
    "S3Bucket", "HttpEndpoint", "Datadog", "KinesisStreamSource", "EnableLogging", "DisableLogging",
    "AppendDelimiterToRecordProcessor", "CloudWatchLogProcessor", "DecompressionProcessor", "LambdaFunctionProcessor",
    "MetadataExtractionProcessor", "RecordDeAggregationProcessor", "HiveJsonInputFormat", "OpenXJsonInputFormat",
    "OrcOutputFormat", "ParquetOutputFormat",
}  # fmt: skip


def seconds(count: int) -> cdk.Duration:
    return cdk.Duration.seconds(count)


def partitioning(*more: firehose.IDataProcessor) -> dict[str, Any]:
    return {
        "dynamic_partitioning": firehose.DynamicPartitioningProps(
            enabled=True, retry_duration=seconds(60)
        ),
        "buffering_interval": seconds(60),
        "buffering_size": cdk.Size.mebibytes(64),
        "processors": [*more, firehose.MetadataExtractionProcessor.jq16({"c": ".c"})],
    }


class Streams(cdk.Stack):
    """A delivery stream for each destination, processor, format and option."""

    def __init__(self, app: cdk.App, url: str) -> None:
        super().__init__(app, "streams", synthesizer=cdk.LegacyStackSynthesizer())
        self.bucket = s3.Bucket(self, "Lake", bucket_name="lake")
        self.kept = s3.Bucket(self, "Kept", bucket_name="kept")
        self.key = kms.Key(self, "Key")
        self.secret = secrets.Secret(
            self,
            "Secret",
            secret_string_value=cdk.SecretValue.unsafe_plain_text('{"api_key": "from the secret"}'),
        )
        self.function = lambda_.Function(
            self,
            "Upper",
            runtime=lambda_.Runtime.PYTHON_3_11,
            handler="index.handler",
            code=lambda_.Code.from_inline(UPPER),
            timeout=cdk.Duration.minutes(1),
        )
        self.url = url
        self._sources()
        self._objects()
        self._processors()
        self._formats()
        self._endpoints()

    def to(self, name: str, destination: firehose.IDestination, **more: Any) -> None:
        firehose.DeliveryStream(
            self, name, delivery_stream_name=name, destination=destination, **more
        )

    def s3(self, name: str, *, of: dict[str, Any] | None = None, **more: Any) -> None:
        given = {"data_output_prefix": f"{name}/", "error_output_prefix": f"bad/{name}/", **more}
        self.to(name, firehose.S3Bucket(self.bucket, **given), **(of or {}))

    def _sources(self) -> None:
        stream = kinesis.Stream(self, "Source", stream_name="source")
        self.s3("from-kinesis", of={"source": firehose.KinesisStreamSource(stream)})
        encryption = firehose.StreamEncryption
        self.s3("plain", of={"encryption": encryption.unencrypted()})
        self.s3("aws-key", of={"encryption": encryption.aws_owned_key()})
        self.s3("own-key", of={"encryption": encryption.customer_managed_key(self.key)})
        self.s3("made-key", of={"encryption": encryption.customer_managed_key()})

    def _objects(self) -> None:
        for kind in ("GZIP", "HADOOP_SNAPPY", "SNAPPY", "ZIP", "UNCOMPRESSED"):
            self.s3(kind.lower(), compression=getattr(firehose.Compression, kind))
        self.s3(
            "options",
            data_output_prefix="options/!{timestamp:yyyy}/",
            error_output_prefix="bad/options/!{firehose:error-output-type}/",
            file_extension=".txt",
            time_zone=cdk.TimeZone.ASIA_TOKYO,
            buffering_interval=seconds(30),
            buffering_size=cdk.Size.mebibytes(2),
            encryption_key=self.key,
            logging_config=firehose.EnableLogging(logs.LogGroup(self, "Log")),
            role=iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("firehose.amazonaws.com")),
        )
        self.s3("silent", logging_config=firehose.DisableLogging())
        self.s3(
            "backed-up",
            s3_backup=firehose.DestinationS3BackupProps(
                mode=firehose.BackupMode.ALL,
                bucket=self.kept,
                data_output_prefix="raw/",
                error_output_prefix="raw-bad/",
                buffering_interval=seconds(600),
                buffering_size=cdk.Size.mebibytes(7),
                compression=firehose.Compression.GZIP,
                encryption_key=self.key,
                logging_config=firehose.EnableLogging(),
            ),
        )

    def _processors(self) -> None:
        upper = firehose.LambdaFunctionProcessor(
            self.function, buffer_interval=seconds(61), buffer_size=cdk.Size.mebibytes(1), retries=2
        )
        self.s3("function", processor=upper)
        self.s3("lines", processors=[upper, firehose.AppendDelimiterToRecordProcessor()])
        inflate = firehose.DecompressionProcessor()
        messages = firehose.CloudWatchLogProcessor(data_message_extraction=True)
        self.s3("envelopes", processors=[inflate])
        self.s3("messages", processors=[inflate, messages])
        split = firehose.RecordDeAggregationProcessor
        prefix = "!{partitionKeyFromQuery:c}/"
        self.s3("parted", **partitioning(), data_output_prefix=f"parted/{prefix}")
        self.s3(
            "parted-json", **partitioning(split.json()), data_output_prefix=f"parted-json/{prefix}"
        )
        self.s3(
            "parted-lines",
            **partitioning(split.delimited("|")),
            data_output_prefix=f"parted-lines/{prefix}",
        )

    def _formats(self) -> None:
        database = glue.CfnDatabase(
            self, "Database", catalog_id=self.account, database_input={"name": "d"}
        )
        columns = [{"name": "n", "type": "int"}, {"name": "at", "type": "timestamp"}]
        table = glue.CfnTable(
            self,
            "Table",
            catalog_id=self.account,
            database_name="d",
            table_input={"name": "t", "storageDescriptor": {"columns": columns}},
        )
        table.add_dependency(database)
        schema = firehose.SchemaConfiguration.from_cfn_table(table)
        openx = firehose.OpenXJsonInputFormat(
            column_to_json_key_mappings={"n": "number"},
            convert_dots_in_json_keys_to_underscores=True,
            lowercase_column_names=True,
        )
        parser = firehose.TimestampParser
        hive = firehose.HiveJsonInputFormat(
            timestamp_parsers=[parser.EPOCH_MILLIS, parser.from_format_string("yyyy/MM/dd")]
        )
        parquet = firehose.ParquetOutputFormat(
            block_size=cdk.Size.mebibytes(64),
            compression=firehose.ParquetCompression.GZIP,
            enable_dictionary_compression=True,
            max_padding=cdk.Size.bytes(1),
            page_size=cdk.Size.kibibytes(64),
            writer_version=firehose.ParquetWriterVersion.V2,
        )
        orc = firehose.OrcOutputFormat(
            block_size=cdk.Size.mebibytes(64),
            bloom_filter_columns=["n"],
            bloom_filter_false_positive_probability=0.1,
            compression=firehose.OrcCompression.ZLIB,
            dictionary_key_threshold=0.5,
            enable_padding=True,
            padding_tolerance=0.1,
            format_version=firehose.OrcFormatVersion.V0_12,
            row_index_stride=1000,
            stripe_size=cdk.Size.mebibytes(8),
        )
        for name, given, made in (
            ("openx-parquet", openx, parquet),
            ("hive-orc", hive, orc),
            ("hive-parquet", firehose.InputFormat.HIVE_JSON, firehose.OutputFormat.PARQUET),
            ("openx-orc", firehose.InputFormat.OPENX_JSON, firehose.OutputFormat.ORC),
        ):
            self.s3(
                name,
                buffering_size=cdk.Size.mebibytes(64),
                data_format_conversion=firehose.DataFormatConversionProps(
                    schema_configuration=schema, input_format=given, output_format=made
                ),
            )

    def _endpoints(self) -> None:
        everything = firehose.DestinationS3BackupProps(bucket=self.kept, data_output_prefix="http/")
        self.to(
            "endpoint",
            firehose.HttpEndpoint(
                endpoint_config=firehose.HttpEndpointConfig(
                    url=f"{self.url}/all",
                    name="mine",
                    access_key=cdk.SecretValue.unsafe_plain_text("the key"),
                ),
                attributes=[firehose.HttpAttribute(name="stage", value="test")],
                backup_mode=firehose.HttpBackupMode.ALL,
                buffering_hints=firehose.HttpBufferingHints(
                    interval=seconds(10), size=cdk.Size.mebibytes(1)
                ),
                request_compression=firehose.HttpCompression.GZIP,
                retry_options=firehose.HttpRetryOptions(duration=seconds(5)),
                logging_config=firehose.EnableLogging(),
                processors=[firehose.LambdaFunctionProcessor(self.function)],
                s3_backup=everything,
            ),
        )
        self.to(
            "datadog",
            firehose.Datadog(
                api_key=self.secret,
                endpoint=firehose.DatadogEndpoint.of(f"{self.url}/datadog"),
                tags=[firehose.HttpAttribute(name="env", value="test")],
                s3_backup=firehose.DestinationS3BackupProps(bucket=self.kept),
            ),
        )


class Lab:
    """The stack, deployed; every delivery stream has its records."""

    def __init__(self, cloud: InProcessCloud, clock: MovableClock, server: Endpoint) -> None:
        self.cloud, self.clock, self.server = cloud, clock, server
        self.firehose: Any = cloud.client("firehose")

    def deploy(self) -> None:
        app = cdk.App(analytics_reporting=False)
        stack = Streams(app, self.server.url)
        template = app.synth().get_stack_by_name(stack.stack_name).template
        self.cloud.client("s3").create_bucket(Bucket="templates")
        self.cloud.client("s3").put_object(
            Bucket="templates", Key="t.json", Body=json.dumps(template).encode()
        )
        formation = self.cloud.client("cloudformation")
        formation.create_stack(
            StackName="s",
            TemplateURL="https://templates.s3.amazonaws.com/t.json",
            Capabilities=["CAPABILITY_IAM"],
        )

        def status() -> str:
            return formation.describe_stacks(StackName="s")["Stacks"][0]["StackStatus"]

        until(lambda: not status().endswith("IN_PROGRESS"), timeout_s=120)
        events = formation.describe_stack_events(StackName="s")["StackEvents"]
        failed = [e.get("ResourceStatusReason") for e in events if "FAILED" in e["ResourceStatus"]]
        assert status() == "CREATE_COMPLETE", failed

    def put(self, name: str, *datas: bytes) -> None:
        self.firehose.put_record_batch(
            DeliveryStreamName=name, Records=[{"Data": data} for data in datas]
        )

    def put_everywhere(self) -> None:
        for name in self.names():
            match name:
                case "from-kinesis":
                    self.cloud.client("kinesis").put_record(
                        StreamName="source", Data=b"one", PartitionKey="k"
                    )
                case "parted":
                    self.put(name, b'{"c":"x","n":1}', b'{"c":"y","n":2}')
                case "parted-json":
                    self.put(name, b'{"c":"x","n":1}{"c":"y","n":2}')
                case "parted-lines":
                    self.put(name, b'{"c":"x","n":1}|{"c":"y","n":2}')
                case "envelopes" | "messages":
                    self.log_to(name)
                case "openx-parquet":
                    self.put(name, b'{"number":7,"at":"2026-01-02 03:04:05"}')
                case "hive-orc":
                    self.put(name, b'{"n":7,"at":"2026/01/02"}')
                case "hive-parquet" | "openx-orc":
                    self.put(name, b'{"n":7,"at":"2026-01-02 03:04:05"}')
                case _:
                    self.put(name, b"one", b"two")

    def log_to(self, name: str) -> None:
        """Have CloudWatch Logs send: nobody else may put where records are decompressed."""
        client = self.cloud.client("logs")
        client.create_log_group(logGroupName=name)
        client.create_log_stream(logGroupName=name, logStreamName="s")
        described = self.firehose.describe_delivery_stream(DeliveryStreamName=name)
        client.put_subscription_filter(
            logGroupName=name,
            filterName="f",
            filterPattern="",
            destinationArn=described["DeliveryStreamDescription"]["DeliveryStreamARN"],
            roleArn="arn:aws:iam::000000000000:role/r",
        )
        event = {"timestamp": self.clock.now_ms(), "message": "hello"}
        client.put_log_events(logGroupName=name, logStreamName="s", logEvents=[event])

    def names(self) -> list[str]:
        found: list[str] = []
        while True:
            more = {"ExclusiveStartDeliveryStreamName": found[-1]} if found else {}
            page = self.firehose.list_delivery_streams(Limit=100, **more)
            found += page["DeliveryStreamNames"]
            if not page["HasMoreDeliveryStreams"]:
                return found

    def deliver(self) -> None:
        def drained() -> bool:
            statuses = self.cloud.cloud.firehose.statuses()
            if all(status["is_drained"] and status["delivered_records"] for status in statuses):
                return True
            self.clock.advance(30)
            return False

        until(drained, timeout_s=120)

    def bodies(self, prefix: str, bucket: str = "lake") -> list[bytes]:
        client = self.cloud.client("s3")
        found = client.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", [])
        return [client.get_object(Bucket=bucket, Key=item["Key"])["Body"].read() for item in found]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    pytest.importorskip("jq", reason="JQ 1.6 has no wheel for this Python")
    clock = MovableClock()
    folder: Path = tmp_path_factory.mktemp("l2")
    with InProcessCloud(folder / "data", clock=clock) as cloud, endpoint(sound) as server:
        lab = Lab(cloud, clock, server)
        lab.deploy()
        lab.put_everywhere()
        lab.deliver()
        yield lab


def unzipped(body: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        return archive.read(archive.infolist()[0])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("from-kinesis", b"one"),
        *((name, b"onetwo") for name in ("plain", "aws-key", "own-key", "made-key", "silent")),
        ("uncompressed", b"onetwo"),
        ("options", b"onetwo"),
        ("backed-up", b"onetwo"),
        ("function", b"ONETWO"),
        ("lines", b"ONE\nTWO"),
        ("messages", b"hello\n"),
        ("parted", b'{"c":"x","n":1}'),
        ("parted-json", b'{"c":"x","n":1}'),
        ("parted-lines", b'{"c":"x","n":1}'),
    ],
)
def test_records_arrive_as_the_constructs_say(lab: Lab, name: str, expected: bytes):
    assert lab.bodies(f"{name}/x/" if name.startswith("parted") else f"{name}/") == [expected]
    assert lab.bodies(f"bad/{name}/") == []


def test_an_envelope_of_logs_is_inflated_and_stays_whole(lab: Lab):
    found = [json.loads(line) for body in lab.bodies("envelopes/") for line in body.splitlines()]
    events = [e["message"] for item in found for e in item["logEvents"]]
    assert "hello" in events


def test_every_compression_is_read_back(lab: Lab):
    assert [gzip.decompress(body) for body in lab.bodies("gzip/")] == [b"onetwo"]
    assert [unzipped(body) for body in lab.bodies("zip/")] == [b"onetwo"]
    assert [read_snappy_java(body) for body in lab.bodies("snappy/")] == [b"onetwo"]
    assert [read_hadoop(body) for body in lab.bodies("hadoop_snappy/")] == [b"onetwo"]


def test_options_of_a_bucket_are_acted_on(lab: Lab):
    found = lab.cloud.client("s3").list_objects_v2(Bucket="lake", Prefix="options/")["Contents"]
    assert found[0]["Key"].endswith(".txt")
    assert [gzip.decompress(body) for body in lab.bodies("raw/", "kept")] == [b"onetwo"]
    described = lab.firehose.describe_delivery_stream(DeliveryStreamName="own-key")
    encryption = described["DeliveryStreamDescription"]["DeliveryStreamEncryptionConfiguration"]
    assert (encryption["Status"], encryption["KeyType"]) == ("ENABLED", "CUSTOMER_MANAGED_CMK")


def test_formats_are_read_back(lab: Lab):
    for name, read in (
        ("openx-parquet", pyarrow.parquet.read_table),
        ("hive-parquet", pyarrow.parquet.read_table),
        ("hive-orc", pyarrow.orc.read_table),
        ("openx-orc", pyarrow.orc.read_table),
    ):
        assert lab.bodies(f"bad/{name}/") == []
        (body,) = lab.bodies(f"{name}/")
        (row,) = read(io.BytesIO(body)).to_pylist()
        assert (row["n"], f"{row['at']:%Y-%m-%d}") == (7, "2026-01-02"), name


def test_endpoints_get_key_attributes_and_records(lab: Lab):
    requests = {request.path: request for request in lab.server.requests}
    mine = requests["/all"]
    headers = {name.lower(): value for name, value in mine.headers.items()}
    assert headers["x-amz-firehose-access-key"] == "the key"
    assert json.loads(headers["x-amz-firehose-common-attributes"]) == {
        "commonAttributes": {"stage": "test"}
    }
    given = json.loads(gzip.decompress(mine.body))
    assert [base64.b64decode(r["data"]) for r in given["records"]] == [b"ONE", b"TWO"]
    assert lab.bodies("http/", "kept") == [b"ONETWO"]
    datadog = {name.lower(): value for name, value in requests["/datadog"].headers.items()}
    assert datadog["x-amz-firehose-access-key"] == "from the secret"
    assert json.loads(datadog["x-amz-firehose-common-attributes"]) == {
        "commonAttributes": {"env": "test"}
    }


def test_no_construct_is_left_out():
    names = {
        name
        for name in firehose.__all__
        if not name.startswith("Cfn") and not (name[0] == "I" and name[1].isupper())
    }
    assert names == WITHOUT_A_STREAM | USED
