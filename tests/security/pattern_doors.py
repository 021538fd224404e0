"""Every door through which a client's pattern, or text for a pattern of ours, comes in: held against evil ones.

Run by test_patterns.py in a process of its own, which a pattern that freezes it cannot take the tests with. Prints a
JSON line for each door: its name, the seconds of processor time that it took, and what was answered to the first evil
pattern.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from headrace.aws.calls.http import HttpRequest
from tests.security import pattern_doors_of_ours as pattern_doors_of_ours  # they join DOORS first
from tests.security.evil_patterns import (
    DOORS,
    EVIL,
    TEXT,
    WILDCARDS,
    answers,
    door,
    fuzzed,
)
from tests.support.cloud import ACCOUNT, InProcessCloud

# --- moto's services --------------------------------------------------------------------------


@door
def eventbridge_wildcards(cloud: InProcessCloud) -> Any:
    events = cloud.client("events")
    cloud.client("sqs").create_queue(QueueName="wild")
    target = {"Id": "1", "Arn": f"arn:aws:sqs:us-east-1:{ACCOUNT}:wild"}

    def put(wildcard: str) -> Any:
        for matcher in ({"wildcard": wildcard}, {"anything-but": {"wildcard": [wildcard]}}):
            pattern = json.dumps({"source": [matcher]})
            events.put_rule(Name="r", EventPattern=pattern)
            events.put_targets(Rule="r", Targets=[target])
            events.put_events(Entries=[{"Source": TEXT, "DetailType": "d", "Detail": "{}"}])

    said = answers(put, WILDCARDS)
    put("*a*b")  # one that is taken
    return said


@door
def eventbridge_patterns_that_nest(cloud: InProcessCloud) -> Any:
    events = cloud.client("events")
    return answers(
        lambda pattern: events.put_rule(Name="n", EventPattern=pattern),
        ['{"a":' * 600 + '["x"]' + "}" * 600, '{"a":' * 5000, '{"$or":[' * 200 + "]}" * 200],
    )


@door
def eventbridge_rule_name_prefix(cloud: InProcessCloud) -> Any:
    events = cloud.client("events")
    events.put_rule(Name=TEXT, EventPattern='{"source":["x"]}')
    return answers(lambda prefix: events.list_rules(NamePrefix=prefix), [*EVIL, *fuzzed()])


@door
def eventbridge_input_templates(cloud: InProcessCloud) -> Any:
    events = cloud.client("events")
    cloud.client("sqs").create_queue(QueueName="told")
    events.put_rule(Name="t", EventPattern='{"source":["bomb"]}')
    transformer = {
        "InputPathsMap": {name: f"$.detail.{name}" for name in "abcdefgh"},
        "InputTemplate": '"<a>"',
    }
    target = {"Id": "1", "Arn": f"arn:aws:sqs:us-east-1:{ACCOUNT}:told"}
    events.put_targets(Rule="t", Targets=[{**target, "InputTransformer": transformer}])
    letters = "abcdefgh"
    detail = {one: f"<{after}>" * 1000 for one, after in itertools.pairwise(letters)}
    entry = {"Source": "bomb", "DetailType": "d", "Detail": json.dumps(detail)}
    return answers(lambda _: events.put_events(Entries=[entry])["FailedEntryCount"], [""])


@door
def eventbridge_json_paths(cloud: InProcessCloud) -> Any:
    events = cloud.client("events")
    url = cloud.client("sqs").create_queue(QueueName="paths")["QueueUrl"]
    events.put_rule(Name="paths", EventPattern='{"source":["paths"]}')
    detail: dict[str, Any] = {"l": [{"v": TEXT}], "deep": {}}
    node = detail["deep"]
    for _ in range(30):
        node |= {"n": {}, "x": {"y": 1}}
        node = node["n"]
    entry = {"Source": "paths", "DetailType": "d", "Detail": json.dumps(detail)}
    paths = [f'$.detail.l[?(@.v =~ "{pattern}")].v' for pattern in EVIL]
    paths += [f"$.detail.l[0].v.`sub(/{pattern}/, x)`" for pattern in EVIL]
    paths += ["$" + "..*" * 8, "$" + "[*]" * 30, "$.*" + ".*" * 30]
    target = {"Id": "1", "Arn": f"arn:aws:sqs:us-east-1:{ACCOUNT}:paths"}
    for path in ["$.detail.l[0]['v']", *paths]:
        transformer = {"InputPathsMap": {"a": path}, "InputTemplate": '"<a>"'}
        events.put_targets(Rule="paths", Targets=[{**target, "InputTransformer": transformer}])
        events.put_events(Entries=[entry])
    return cloud.client("sqs").receive_message(QueueUrl=url)["Messages"][0]["Body"]


@door
def api_gateway_documents(cloud: InProcessCloud) -> Any:
    def document(pattern: str) -> bytes:
        schema = {"type": "string", "pattern": pattern, "default": TEXT}
        parameter = {"name": "q", "in": "query", "schema": schema}
        get = {"parameters": [parameter], "responses": {"200": {"description": "ok"}}}
        whole = {
            "openapi": "3.0.1",
            "info": {"title": "t", "version": "1", "description": "d"},
            "paths": {"/a": {"get": get}},
        }
        return json.dumps(whole).encode()

    gateway = cloud.client("apigateway")
    return answers(
        lambda pattern: gateway.import_rest_api(failOnWarnings=True, body=document(pattern))[
            "name"
        ],
        EVIL,
    )


# Nine aliases of nine aliases, eight times: 40 million values in 400 bytes.
ALIASES = "x0: &a0 [a,a,a,a,a,a,a,a,a]\n" + "".join(
    f"x{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)
)
MERGES = "y0: &b0 {a: 1}\n" + "".join(
    f"y{n}: &b{n} {{<<: [{','.join([f'*b{n - 1}'] * 9)}]}}\n" for n in range(1, 9)
)
YAML = [
    *(ALIASES, MERGES, "x: &a [*a]\n", "x: " + "[" * 20_000 + "]" * 20_000 + "\n"),
    "x: " + "9" * 100_000 + "\n",
]


@door
def api_gateway_yaml(cloud: InProcessCloud) -> Any:
    gateway = cloud.client("apigateway")
    head = "openapi: 3.0.1\ninfo: {title: t, version: '1', description: d}\npaths: {}\n"
    return answers(
        lambda text: gateway.import_rest_api(failOnWarnings=True, body=(head + text).encode()),
        YAML,
    )


@door
def ssm_documents(cloud: InProcessCloud) -> Any:
    ssm = cloud.client("ssm")

    def create(text: str) -> Any:
        ssm.create_document(
            Name="document",
            DocumentFormat="YAML",
            DocumentType="Command",
            Content="schemaVersion: '2.2'\n" + text,
        )
        return ssm.get_document(Name="document", DocumentFormat="JSON")["Content"]

    return answers(create, YAML)


@door
def sns_filter_policies(cloud: InProcessCloud) -> Any:
    sns = cloud.client("sns")
    topic = sns.create_topic(Name="t")["TopicArn"]
    queue = f"arn:aws:sqs:us-east-1:{ACCOUNT}:filtered"
    cloud.client("sqs").create_queue(QueueName="filtered")
    policy = {letter: {"x": ["1"]} for letter in "abcde"}
    sns.subscribe(
        TopicArn=topic,
        Protocol="sqs",
        Endpoint=queue,
        Attributes={"FilterPolicy": json.dumps(policy), "FilterPolicyScope": "MessageBody"},
    )
    item = json.dumps({letter: {"x": "2"} for letter in "abcde"})
    return answers(
        lambda message: bool(sns.publish(TopicArn=topic, Message=message)["MessageId"]),
        ["[" * 200 + item + "]" * 200, "[" * 20_000 + "]" * 20_000],
    )


@door
def sqs_queue_name_prefix(cloud: InProcessCloud) -> Any:
    sqs = cloud.client("sqs")
    sqs.create_queue(QueueName=TEXT)
    return answers(lambda prefix: sqs.list_queues(QueueNamePrefix=prefix), [*EVIL, *fuzzed()])


@door
def ssm_allowed_pattern(cloud: InProcessCloud) -> Any:
    ssm = cloud.client("ssm")
    return answers(
        lambda pattern: ssm.put_parameter(
            Name="p", Value=TEXT, Type="String", AllowedPattern=pattern, Overwrite=True
        ),
        [*EVIL, *fuzzed()],
    )


@door
def glue_table_expressions(cloud: InProcessCloud) -> Any:
    glue = cloud.client("glue")
    glue.create_database(DatabaseInput={"Name": "d"})
    glue.create_table(DatabaseName="d", TableInput={"Name": TEXT})
    return answers(
        lambda pattern: glue.get_tables(DatabaseName="d", Expression=pattern)["TableList"],
        [*EVIL, *fuzzed()],
    )


@door
def glue_partition_expressions(cloud: InProcessCloud) -> Any:
    glue = cloud.client("glue")
    glue.create_database(DatabaseInput={"Name": "p"})
    keys = [{"Name": "k", "Type": "string"}]
    glue.create_table(DatabaseName="p", TableInput={"Name": "t", "PartitionKeys": keys})
    glue.create_partition(
        DatabaseName="p",
        TableName="t",
        PartitionInput={"Values": ["a" * 500], "StorageDescriptor": {}},
    )
    return answers(
        lambda text: glue.get_partitions(DatabaseName="p", TableName="t", Expression=text)[
            "Partitions"
        ],
        [
            "k LIKE '" + "%a" * 40 + "b'",
            "k LIKE '" + "%a_" * 40 + "b'",
            "k NOT LIKE '" + "%a" * 40 + "b'",
            "(" * 60 + "k = 'a'" + ")" * 60,
        ],
    )


@door
def iam_policy_wildcards(cloud: InProcessCloud) -> Any:
    from moto.iam.access_control import IAMPolicyStatement

    match: Any = IAMPolicyStatement._match
    return [bool(match(wildcard, TEXT)) for wildcard in WILDCARDS]


@door
def ec2_filters(cloud: InProcessCloud) -> Any:
    ec2 = cloud.client("ec2")
    ec2.create_security_group(GroupName=TEXT, Description=TEXT)
    return answers(
        lambda value: ec2.describe_security_groups(
            Filters=[
                {"Name": "description", "Values": [value]},
                {"Name": "tag:a", "Values": [value]},
            ]
        )["SecurityGroups"],
        [*WILDCARDS, *EVIL],
    )


@door
def ecr_filters(cloud: InProcessCloud) -> Any:
    ecr = cloud.client("ecr")
    ecr.create_repository(repositoryName=TEXT.strip("-"))

    def scan(pattern: str) -> Any:
        filters = [{"filter": pattern, "filterType": "WILDCARD"}]
        rules = [{"scanFrequency": "SCAN_ON_PUSH", "repositoryFilters": filters}]
        ecr.put_registry_scanning_configuration(scanType="ENHANCED", rules=rules)
        return ecr.batch_get_repository_scanning_configuration(repositoryNames=[TEXT.strip("-")])

    return answers(scan, [*WILDCARDS, *EVIL])[:60]


@door
def iot_thing_queries(cloud: InProcessCloud) -> Any:
    iot = cloud.client("iot")
    iot.create_thing(thingName=TEXT)
    iot.create_thing_group(thingGroupName=TEXT)
    return answers(
        lambda pattern: iot.search_index(queryString=pattern),
        [f"{kind}:{p}" for kind in ("thingName", "thingGroupNames") for p in WILDCARDS + EVIL],
    )


@door
def ecs_arns(cloud: InProcessCloud) -> Any:
    ecs = cloud.client("ecs")
    arn = f"arn:aws:ecs:us-east-1:{ACCOUNT}:"
    return answers(
        lambda text: ecs.list_tags_for_resource(resourceArn=text),
        [arn + "/" * 100_000, arn + "a/" * 50_000],
    )[-60:]


@door
def step_functions_paths(cloud: InProcessCloud) -> Any:
    import re

    from headrace.composition.moto_patches import PATCHES
    from headrace.moto.patching import watch_imports

    watch_imports(PATCHES)
    from moto.stepfunctions.parser.asl.utils import json_path

    pattern = json_path._PATTERN_SLICE_OR_WILDCARD_ACCESS
    return [
        re.search(pattern, path) is not None
        for path in ("$.a[*]", "$.a[0:1].b.c", "$.a[0:1]" + "." * 5000 + "[")
    ]


@door
def log_filters(cloud: InProcessCloud) -> Any:
    logs = cloud.client("logs")
    logs.create_log_group(logGroupName="g")
    logs.create_log_stream(logGroupName="g", logStreamName="s")
    event = {"timestamp": int(time.time() * 1000), "message": TEXT * 100}  # noqa: TID251
    logs.put_log_events(logGroupName="g", logStreamName="s", logEvents=[event])
    for pattern in EVIL:
        query = f"filter @message like /{pattern}/"
        logs.start_query(logGroupName="g", startTime=0, endTime=1 << 40, queryString=query)
    return answers(
        lambda pattern: len(
            logs.filter_log_events(logGroupName="g", filterPattern=f"%{pattern}%")["events"]
        ),
        [*EVIL, *fuzzed()],
    )


@door
def dynamodb_expressions(cloud: InProcessCloud) -> Any:
    table = cloud.client("dynamodb")
    table.create_table(
        TableName="t",
        KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    return answers(
        lambda text: table.put_item(
            TableName="t", Item={"k": {"S": "a"}}, ConditionExpression=text
        ),
        [
            "(" * 200 + "attribute_not_exists(k)" + ")" * 200,
            "attribute_exists(" + "a." * 2000 + "a)",
            " AND ".join(["attribute_not_exists(k)"] * 150),
            "NOT " * 1000 + "attribute_not_exists(k)",
            " OR ".join(["attribute_not_exists(k)"] * 40_000),
        ],
    )


@door
def query_parameters(cloud: InProcessCloud) -> Any:
    scope = "AWS4-HMAC-SHA256 Credential=t/20260101/us-east-1/{}/aws4_request, Signature=x"
    numbers = range(1, 20_001)
    tags = "".join(f"&Tags.member.{n}.Key=k{n}&Tags.member.{n}.Value=v" for n in numbers)
    filters = "".join(f"&Filter.{n}.Name=image-id&Filter.{n}.Value.1=x" for n in numbers)
    said: list[int] = []
    for service, body in (
        ("iam", f"Action=TagRole&Version=2010-05-08&RoleName=nobody{tags}"),
        ("ec2", f"Action=DescribeImages&Version=2016-11-15{filters}"),
    ):
        headers = {
            "host": "127.0.0.1:4566",
            "authorization": scope.format(service),
            "content-type": "application/x-www-form-urlencoded",
        }
        request = HttpRequest("POST", "/", "", headers, body.encode())
        said.append(cloud.handle(request).status)
    return said


def processor_s() -> float:
    """Return the processor time of this process and its ended children: waiting beside other work does not count."""
    return sum(os.times()[:4])


def main(data_dir: str) -> None:
    with InProcessCloud(Path(data_dir)) as cloud:
        cloud.cloud.moto.warm_up()
        sys.stdout.write(json.dumps({"doors": list(DOORS)}) + "\n")
        sys.stdout.flush()
        for name, function in DOORS.items():
            began_s = processor_s()
            said = function(cloud)
            row = {"door": name, "seconds": processor_s() - began_s, "said": str(said)}
            sys.stdout.write(json.dumps(row) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
