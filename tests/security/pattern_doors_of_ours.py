"""The doors of headrace's own services to clients' patterns."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from headrace.aws.calls.http import HttpRequest
from headrace.core.patterns import MatchTooLong, PatternRefused, java_pattern
from headrace.core.ports import StreamRecord
from headrace.services.lambda_.mappings.checks import Filter, InvalidPattern
from tests.security.evil_patterns import (
    EVIL,
    FAMILIES,
    RESOURCE,
    SIZES,
    TEXT,
    WILDCARDS,
    answers,
    door,
    fuzzed,
)
from tests.support.cloud import ACCOUNT, InProcessCloud

# --- headrace's own services ------------------------------------------------------------------


@door
def java_patterns(_: InProcessCloud) -> Any:
    found: dict[str, str] = {}
    for family, of_size in FAMILIES.items():
        for size in SIZES:
            pattern, text = of_size(size)
            try:
                answer = str(java_pattern(pattern).matches(text))
            except (PatternRefused, MatchTooLong) as error:
                answer = type(error).__name__
            found[f"{family} {size}"] = answer
    return json.dumps(found)


@door
def cloudformation_allowed_pattern(cloud: InProcessCloud) -> Any:
    cfn = cloud.client("cloudformation")

    def create(pattern: str) -> Any:
        declared = {"Type": "String", "AllowedPattern": pattern, "Default": TEXT}
        body = json.dumps({"Parameters": {"P": declared}, "Resources": RESOURCE})
        return cfn.create_change_set(
            StackName="s", ChangeSetName="c", ChangeSetType="CREATE", TemplateBody=body
        )

    return answers(create, [*EVIL, *fuzzed()])


@door
def cloudformation_many_slow_patterns(cloud: InProcessCloud) -> Any:
    # Each match ends well within its deadline; together they would take an hour.
    items = ",".join(["a" * 20] * 190)
    declared = {
        f"P{n}": {
            "Type": "CommaDelimitedList",
            "AllowedPattern": f"(?!x)(?:{'(?:a|aa)' * 13}b|a*|{n})",
            "Default": items,
        }
        for n in range(200)
    }
    body = json.dumps({"Parameters": declared, "Resources": RESOURCE})
    cloud.client("s3").create_bucket(Bucket="slow")
    cloud.client("s3").put_object(Bucket="slow", Key="t", Body=body.encode())
    return answers(
        lambda url: cloud.client("cloudformation").create_change_set(
            StackName="slow", ChangeSetName="c", ChangeSetType="CREATE", TemplateURL=url
        ),
        ["http://127.0.0.1:4566/slow/t"],
    )


@door
def cloudformation_text_of_dynamic_references(cloud: InProcessCloud) -> Any:
    cfn = cloud.client("cloudformation")
    s3 = cloud.client("s3")
    s3.create_bucket(Bucket="templates")

    def create(value: str) -> Any:
        body = json.dumps({"Resources": RESOURCE, "Outputs": {"O": {"Value": value}}})
        s3.put_object(Bucket="templates", Key="t", Body=body.encode())
        url = "http://127.0.0.1:4566/templates/t"
        return cfn.create_stack(StackName=f"d{len(value)}", TemplateURL=url)

    return answers(create, ["{{resolve:ssm:" * 60_000, "{{resolve:x:" * 60_000 + "}}"])


@door
def patterns_of_the_models(cloud: InProcessCloud) -> Any:
    kinesis, emr = cloud.client("kinesis"), cloud.client("emr-serverless")
    said = answers(lambda name: kinesis.describe_stream(StreamName=name), ["a" * 200_000 + "!"])
    for text in ("/" * 200_000, "a." * 100_000, "\n" * 200_000):
        answers(
            lambda uri: emr.create_application(
                name="n",
                releaseLabel="emr-7.0.0",
                type="SPARK",
                monitoringConfiguration={"s3MonitoringConfiguration": {"logUri": uri}},
            ),
            [text],
        )
        answers(lambda arn: kinesis.list_tags_for_resource(ResourceARN=arn), [text])
    return said[-120:]


@door
def lambda_event_filters(cloud: InProcessCloud) -> Any:
    said = ""
    for wildcard in WILDCARDS:
        pattern = {
            "data": {"x": [{"wildcard": wildcard}, {"anything-but": {"wildcard": [wildcard]}}]}
        }
        record = StreamRecord("1", "k", json.dumps({"x": "a" * 500_000}).encode(), 0)
        try:
            answer = str(Filter.parse(json.dumps(pattern)).matches(record))
        except InvalidPattern as error:
            answer = str(error)
        said = said or answer
    return said


@door
def lambda_resource_policies(cloud: InProcessCloud) -> Any:
    from headrace.services.lambda_.names import FunctionRef
    from headrace.services.lambda_.permits import Caller, allows

    statements = {
        wildcard: {
            "Effect": "Allow",
            "Action": f"lambda:{wildcard}",
            "Principal": "*",
            "Resource": f"arn:aws:lambda:*:*:function:{wildcard}",
            "Condition": {"ArnLike": {"AWS:SourceArn": f"arn:aws:s3:::{wildcard}"}},
        }
        for wildcard in ["?" * 100 + "*a?" * 100 + "b", *WILDCARDS]
    }
    context = {"aws:sourcearn": "arn:aws:s3:::" + "a" * 5000}
    ref = FunctionRef(ACCOUNT, "us-east-1", "a" * 5000)
    function: Any = SimpleNamespace(policies={"": statements}, policy_heads={}, ref=ref)
    caller = Caller("s3.amazonaws.com", ACCOUNT, context)
    return allows(function, None, "lambda:" + "a" * 5000, caller)


@door
def hosts_of_buckets(cloud: InProcessCloud) -> Any:
    hosts = [
        "s3" + "-" * 200 + "!",
        "s3." * 80 + "!",
        "s3" + "-a" * 5000 + "!",
        "a." * 5000 + "localhost!",
        ".localhost" * 25 + "\t",
    ]
    return [cloud.handle(HttpRequest("GET", "/", "", {"host": host}, b"")).status for host in hosts]


@door
def paths_of_urls(cloud: InProcessCloud) -> Any:
    scope = "AWS4-HMAC-SHA256 Credential=t/20260101/us-east-1/{}/aws4_request, Signature=x"
    found: set[int] = set()
    for service in ("lambda", "apigateway", "iot", "route53", "glue", "batch", "greengrass"):
        for path in ("/" * 8000, "/a" * 4000, "/-" * 4000, "/tags/" * 1300 + "!"):
            headers = {"host": "127.0.0.1:4566", "authorization": scope.format(service)}
            found.add(cloud.handle(HttpRequest("GET", path, "", headers, b"")).status)
    return sorted(found)
