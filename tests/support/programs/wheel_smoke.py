"""What a wheel of headrace must do in an environment of its own, with nothing of the checkout: run by test_wheel.py."""

import importlib.util
import json
import sys
import urllib.request
from pathlib import Path

import boto3
from botocore.exceptions import ClientError

import headrace.testing
from headrace.testing.clouds import ServedCloud

for extra in ("pyspark", "pyarrow", "pandas", "aws_cdk"):
    assert importlib.util.find_spec(extra) is None, f"the base install has {extra}"
assert "site-packages" in headrace.testing.__file__, headrace.testing.__file__

folder = Path(sys.argv[1])
(folder / "handler.py").write_text(
    "import base64, boto3\n"
    "kinesis = boto3.client('kinesis')\n"
    "def handler(event, context):\n"
    "    for record in event['Records']:\n"
    "        data = base64.b64decode(record['kinesis']['data']).upper()\n"
    "        kinesis.put_record(StreamName='out', Data=data, PartitionKey='k')\n"
)
from headrace.testing.code import make_function  # noqa: E402

with headrace.testing.cloud() as cloud:
    kinesis = boto3.client("kinesis")
    for name in ("in", "out"):
        kinesis.create_stream(StreamName=name, ShardCount=1)
    make_function(cloud, folder, source="in")
    kinesis.put_record(StreamName="in", Data=b"one", PartitionKey="k")
    cloud.until_drained()
    assert [record.data for record in cloud.records_of("out")] == [b"ONE"]
    boto3.client("s3").create_bucket(Bucket="lake")
    boto3.client("sqs").create_queue(QueueName="q")
    refused = ""
    try:
        boto3.client("firehose").create_delivery_stream(
            DeliveryStreamName="parquet",
            ExtendedS3DestinationConfiguration={
                "RoleARN": "arn:aws:iam::000000000000:role/r",
                "BucketARN": "arn:aws:s3:::lake",
                "BufferingHints": {"SizeInMBs": 64},
                "DataFormatConversionConfiguration": {
                    "SchemaConfiguration": {
                        "RoleARN": "arn:aws:iam::000000000000:role/r",
                        "DatabaseName": "d",
                        "TableName": "t",
                    },
                    "InputFormatConfiguration": {"Deserializer": {"OpenXJsonSerDe": {}}},
                    "OutputFormatConfiguration": {"Serializer": {"ParquetSerDe": {}}},
                },
            },
        )
    except ClientError as error:
        refused = str(error)
    assert "pip install 'headrace[parquet] @ file:///" in refused, refused
with ServedCloud() as served:
    health = json.load(urllib.request.urlopen(f"{served.endpoint_url}/_headrace/health"))
    assert "kinesis" in health["services"]
sys.stdout.write("the wheel works\n")
