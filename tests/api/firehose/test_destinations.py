"""Destinations other than S3, whole: through boto3 and CloudFormation, to a server and to an OpenSearch domain."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.aws.calls.http import HttpRequest
from tests.support.cloud import InProcessCloud
from tests.support.endpoint import Endpoint, Request, endpoint, json_answer
from tests.support.hec import TOKEN, hec
from tests.support.server import wait_until

ROLE = "arn:aws:iam::000000000000:role/r"
S3 = {
    "RoleARN": ROLE,
    "BucketARN": "arn:aws:s3:::lake",
    "ErrorOutputPrefix": "bad/!{firehose:error-output-type}/",
}
NOW = {"SizeInMBs": 1, "IntervalInSeconds": 0}


def sound(request: Request) -> bytes:
    return json_answer(200, {"requestId": request.json["requestId"], "timestamp": 1})


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("destinations") / "data") as cloud:
        cloud.client("s3").create_bucket(Bucket="lake")
        cloud.client("opensearch").create_domain(DomainName="flights")
        yield cloud


@pytest.fixture
def server() -> Iterator[Endpoint]:
    with endpoint(sound) as running:
        yield running


def put(firehose: Any, *datas: bytes) -> None:
    answer = firehose.put_record_batch(
        DeliveryStreamName="d", Records=[{"Data": data} for data in datas]
    )
    assert answer["FailedPutCount"] == 0


def searched(cloud: InProcessCloud, path: str) -> Any:
    status = cloud.client("opensearch").describe_domain(DomainName="flights")["DomainStatus"]
    at = status["Endpoint"].partition("/")[2]
    answer = cloud.handle(HttpRequest("POST", f"/{at}/{path}", "", {"host": "127.0.0.1:4566"}))
    assert isinstance(answer.body, bytes)
    return json.loads(answer.body)


def test_records_that_are_put_reach_an_endpoint(firehose: Any, server: Endpoint):
    firehose.create_delivery_stream(
        DeliveryStreamName="d",
        HttpEndpointDestinationConfiguration={
            "EndpointConfiguration": {"Url": server.url, "AccessKey": "secret"},
            "BufferingHints": NOW,
            "S3Configuration": S3,
        },
    )
    put(firehose, b"one", b"two")
    wait_until(lambda: len(server.requests) > 0)
    assert server.requests[0].headers["x-amz-firehose-access-key"] == "secret"
    described = firehose.describe_delivery_stream(DeliveryStreamName="d")
    assert "secret" not in str(described)


def test_an_endpoint_elsewhere_needs_https(firehose: Any):
    with pytest.raises(ClientError) as caught:
        firehose.create_delivery_stream(
            DeliveryStreamName="d",
            HttpEndpointDestinationConfiguration={
                "EndpointConfiguration": {"Url": "http://example.com/"},
                "S3Configuration": S3,
            },
        )
    assert caught.value.response["Error"]["Message"] == (
        "1 validation error detected: Value 'http://example.com/' at"
        " 'httpEndpointDestinationConfiguration.endpointConfiguration.url' failed to satisfy constraint: Member must"
        " satisfy regular expression pattern: https://.*"
    )


def test_records_are_found_in_the_domain(cloud: InProcessCloud, firehose: Any):
    firehose.create_delivery_stream(
        DeliveryStreamName="d",
        AmazonopensearchserviceDestinationConfiguration={
            "RoleARN": ROLE,
            "DomainARN": "arn:aws:es:us-east-1:000000000000:domain/flights",
            "IndexName": "f",
            "IndexRotationPeriod": "NoRotation",
            "BufferingHints": NOW,
            "RetryOptions": {"DurationInSeconds": 0},
            "S3Configuration": S3,
        },
    )
    put(firehose, b'{"delay": 1}', b'{"delay": "late"}')
    wait_until(lambda: searched(cloud, "f/_count").get("count") == 1)
    s3 = cloud.client("s3")
    wait_until(
        lambda: (
            s3.list_objects_v2(Bucket="lake", Prefix="bad/AmazonOpenSearchService-failed/")[
                "KeyCount"
            ]
            == 1
        )
    )


def test_a_domain_s_vpc_is_that_of_its_subnets(cloud: InProcessCloud, firehose: Any):
    # DescribeDeliveryStream's model requires VpcId, which no caller gives.
    ec2 = cloud.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.7.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.7.1.0/24")["Subnet"]["SubnetId"]
    given = {"SubnetIds": [subnet], "RoleARN": ROLE, "SecurityGroupIds": ["sg-1"]}
    firehose.create_delivery_stream(
        DeliveryStreamName="v",
        AmazonopensearchserviceDestinationConfiguration={
            "RoleARN": ROLE,
            "DomainARN": "arn:aws:es:us-east-1:000000000000:domain/flights",
            "IndexName": "f",
            "S3Configuration": S3,
            "VpcConfiguration": given,
        },
    )
    described = firehose.describe_delivery_stream(DeliveryStreamName="v")
    (destination,) = described["DeliveryStreamDescription"]["Destinations"]
    shown = destination["AmazonopensearchserviceDestinationDescription"]
    assert shown["VpcConfigurationDescription"] == {**given, "VpcId": vpc}


def test_another_destination_takes_over(cloud: InProcessCloud, firehose: Any, server: Endpoint):
    """UpdateDestination may name another kind: nothing of the present one is kept."""
    firehose.create_delivery_stream(
        DeliveryStreamName="d",
        ExtendedS3DestinationConfiguration={**S3, "BufferingHints": NOW},
    )
    firehose.update_destination(
        DeliveryStreamName="d",
        CurrentDeliveryStreamVersionId="1",
        DestinationId="destinationId-000000000001",
        HttpEndpointDestinationUpdate={
            "EndpointConfiguration": {"Url": server.url},
            "BufferingHints": NOW,
            "S3Update": S3,
        },
    )
    put(firehose, b"one")
    wait_until(lambda: len(server.requests) == 1)


SEARCH = {
    "RoleARN": ROLE,
    "ClusterEndpoint": "https://search.example",
    "IndexName": "i",
    "S3Configuration": S3,
}


@pytest.mark.parametrize(
    ("made", "update"),
    [
        ({"ExtendedS3DestinationConfiguration": S3}, "AmazonopensearchserviceDestinationUpdate"),
        ({"AmazonopensearchserviceDestinationConfiguration": SEARCH}, "S3DestinationUpdate"),
    ],
)
def test_opensearch_and_other_destinations_are_not_exchanged(
    firehose: Any, made: dict[str, Any], update: str
):
    """Documented: API_UpdateDestination."""
    firehose.create_delivery_stream(DeliveryStreamName="d", **made)
    search = {name: value for name, value in SEARCH.items() if name != "S3Configuration"}
    change = S3 if update.startswith("S3") else {**search, "S3Update": S3}
    with pytest.raises(
        ClientError, match=r"\(InvalidArgumentException\).*: Switching between Amazon OpenSearch"
    ):
        firehose.update_destination(
            DeliveryStreamName="d",
            CurrentDeliveryStreamVersionId="1",
            DestinationId="destinationId-000000000001",
            **{update: change},
        )
    described = firehose.describe_delivery_stream(DeliveryStreamName="d")
    assert described["DeliveryStreamDescription"]["VersionId"] == "1"


def test_elasticsearch_becomes_opensearch(firehose: Any):
    """Documented: API_UpdateDestination, from one OpenSearch destination to another."""
    elastic = {**SEARCH, "TypeName": ""}
    firehose.create_delivery_stream(
        DeliveryStreamName="d", ElasticsearchDestinationConfiguration=elastic
    )
    firehose.update_destination(
        DeliveryStreamName="d",
        CurrentDeliveryStreamVersionId="1",
        DestinationId="destinationId-000000000001",
        AmazonopensearchserviceDestinationUpdate={
            **{name: value for name, value in SEARCH.items() if name != "S3Configuration"},
            "S3Update": S3,
        },
    )
    described = firehose.describe_delivery_stream(DeliveryStreamName="d")
    (destination,) = described["DeliveryStreamDescription"]["Destinations"]
    assert "AmazonopensearchserviceDestinationDescription" in destination


def test_splunk_is_refused_in_awss_words(firehose: Any):
    given = {"HECEndpointType": "Raw", "HECToken": TOKEN, "S3Configuration": S3}
    for url in ("splunk.example:8088", "https://splunk.example:8088/services/collector"):
        with pytest.raises(ClientError, match="Supported endpoint format is https://<domain>:<p"):
            firehose.create_delivery_stream(
                DeliveryStreamName="d",
                SplunkDestinationConfiguration={**given, "HECEndpoint": url},
            )
    firehose.create_delivery_stream(
        DeliveryStreamName="d",
        SplunkDestinationConfiguration={
            **given,
            "HECEndpoint": "https://splunk.example:8088",
            "S3BackupMode": "AllEvents",
        },
    )
    with pytest.raises(ClientError, match="Disabling S3 backup is not currently supported"):
        firehose.update_destination(
            DeliveryStreamName="d",
            CurrentDeliveryStreamVersionId="1",
            DestinationId="destinationId-000000000001",
            SplunkDestinationUpdate={"S3BackupMode": "FailedEventsOnly"},
        )


def test_templates_make_and_change_destinations(cloud: InProcessCloud, server: Endpoint):
    """A domain, and delivery streams to it by its attributes, to an endpoint, and to Splunk."""
    with hec() as splunk:
        search = {
            "RoleARN": ROLE,
            "ClusterEndpoint": {"Fn::Sub": "https://${Domain.DomainEndpoint}"},
            "IndexName": "g",
            "IndexRotationPeriod": "NoRotation",
            "BufferingHints": {"SizeInMBs": "1", "IntervalInSeconds": "0"},
            "S3Configuration": S3,
        }
        http = {
            "EndpointConfiguration": {"Url": server.url},
            "BufferingHints": NOW,
            "S3Configuration": S3,
        }
        hec_ = {
            "HECEndpoint": splunk.url,
            "HECEndpointType": "Raw",
            "HECToken": TOKEN,
            "HECAcknowledgmentTimeoutInSeconds": "180",
            "BufferingHints": NOW,
            "S3Configuration": S3,
        }
        resources: dict[str, Any] = {
            "Domain": {"Type": "AWS::OpenSearchService::Domain", "Properties": {}},
            "Search": stream("search", "Amazonopensearchservice", search),
            "Http": stream("http", "HttpEndpoint", http),
            "Splunk": stream("splunk", "Splunk", hec_),
        }
        outputs = {"Domain": {"Value": {"Fn::GetAtt": ["Domain", "DomainEndpoint"]}}}
        template = {"Resources": resources, "Outputs": outputs}
        cloudformation, firehose = cloud.client("cloudformation"), cloud.client("firehose")
        cloudformation.create_stack(StackName="s", TemplateBody=json.dumps(template))
        described = settled(cloudformation, "CREATE_COMPLETE")
        for name in ("search", "http", "splunk"):
            firehose.put_record(DeliveryStreamName=name, Record={"Data": b'{"a": 1}'})
        wait_until(lambda: len(server.requests) == 1 and len(splunk.taken) == 1)
        path = described["Outputs"][0]["OutputValue"].partition("/")[2]

        def count() -> Any:
            request = HttpRequest("POST", f"/{path}/_count", "", {"host": "127.0.0.1:4566"})
            body = cloud.handle(request).body
            assert isinstance(body, bytes)
            return json.loads(body)["count"]

        wait_until(lambda: count() == 1)
        http["RequestConfiguration"] = {"ContentEncoding": "GZIP"}
        cloudformation.update_stack(StackName="s", TemplateBody=json.dumps(template))
        settled(cloudformation, "UPDATE_COMPLETE")
        firehose.put_record(DeliveryStreamName="http", Record={"Data": b"two"})
        wait_until(lambda: len(server.requests) == 2)
        assert server.requests[1].headers["content-encoding"] == "gzip"
        cloudformation.delete_stack(StackName="s")


def stream(name: str, kind: str, destination: dict[str, Any]) -> dict[str, Any]:
    properties = {"DeliveryStreamName": name, f"{kind}DestinationConfiguration": destination}
    return {"Type": "AWS::KinesisFirehose::DeliveryStream", "Properties": properties}


def settled(cloudformation: Any, status: str) -> Any:
    def stack() -> Any:
        return cloudformation.describe_stacks(StackName="s")["Stacks"][0]

    wait_until(lambda: not stack()["StackStatus"].endswith("IN_PROGRESS"))
    found = stack()
    assert found["StackStatus"] == status, cloudformation.describe_stack_events(StackName="s")
    return found
