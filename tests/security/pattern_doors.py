"""Every door through which a client's pattern, or text for a pattern of ours, comes in: held against evil ones.

Run by test_patterns.py in a process of its own, which a pattern that freezes it cannot take the tests with. Prints a
JSON line for each door: its name, the seconds of processor time that it took, and what was answered to the first evil
pattern.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import ClientError

from headrace.aws.calls.http import HttpRequest
from headrace.core.patterns import MatchTooLong, PatternRefused, java_pattern
from headrace.core.ports import StreamRecord
from headrace.services.lambda_.mappings.checks import Filter, InvalidPattern
from tests.support.cloud import ACCOUNT, InProcessCloud

TEXT = "a" * 60 + "-"
# Patterns of which a backtracking engine tries more ways than there are atoms, and a text that drives it to.
EVIL = [
    "(a+)+$",
    "(a|a)*b",
    "((a*)*)*b",
    "(a|aa)+$",
    "(.*a){25}b",
    "(?=(a+)+b)a*",
    r"(a+)+\1b",
    "(?:(?:a?){20}){20}b" + "(?<!a)",
    "([a-z]+)*!",
    "(a{1,30}){1,30}b",
    "(?:a*)*(?:a*)*(?:a*)*b",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
]
# Families of evil patterns by size: (pattern, text).
FAMILIES: dict[str, Callable[[int], tuple[str, str]]] = {
    "nested repeats": lambda n: ("(" * n + "a" + "+)" * n + "b", "a" * n * 40),
    "rows of choices": lambda n: ("(a|aa)" * n + "b", "a" * n * 2),
    "rows of options": lambda n: ("a?" * n + "a" * n, "a" * n),
    "rows of optional groups": lambda n: ("(?:a?b?)?" * n + "c", "a" * n),
    "rows of stars": lambda n: (".*" * n + "b", "a" * n * 40),
    "stars of every character": lambda n: (r"(?:.*\n?)*" * n + "b", "\u00e9" * n * 40),
    "repeats in look-ahead": lambda n: ("(?=(a+)+b)" * n + "a*", "a" * n * 40),
    "choices after look-ahead": lambda n: ("(?!x)" + "(a|aa)" * n + "b", "a" * (n * 3 // 2)),
    "choices in look-ahead": lambda n: (f"(?=(?:a|aa){{{n}}}$)b|c", "a" * (n * 3 // 2)),
    "repeats in look-behind": lambda n: ("(?:(?<=(?:a|aa)*)a)*" * n + "b", "a" * n * 40),
    "back references": lambda n: ("(a*)" * n + r"\1\2" * n + "b", "a" * n * 20),
    "optional back references": lambda n: (r"(a+)(?:\1?b?)?" + r"(?:\1|a)" * n + "c", "a" * n * 2),
    "possessive repeats": lambda n: ("(?:(?:a|aa)++b?)*" * n + "c", "a" * n * 40),
    "atomic groups": lambda n: ("(?>(a|aa)+)*" * n + "b", "a" * n * 40),
    "counts of counts": lambda n: (f"((a{{{n * 20}}}){{{n * 20}}})b", "a" * n * 40),
    "counts of open counts": lambda n: (f"(a{{0,{n}}}){{0,{n}}}b", "a" * n * 40),
    "counts after look-ahead": lambda n: (f"(?!x)(?:(?:a?){{{n}}}){{{n}}}b", "a" * n * 2),
    "many classes": lambda n: (r"[^\u0101-\u2000]" * n * 4 + "x", "\u00e9" * n * 4),
    "many classes of any case": lambda n: ("(?i)" + r"[^\u0101-\u2000]" * n * 4, "\u00e9" * n),
    "many properties": lambda n: (r"\p{L}" * n * 4 + "x", "\u00e9" * n * 4),
    "properties after look-ahead": lambda n: (r"(?!b)(?:\p{L}|\w\w)" * n + "-", "\u00e9a" * n),
    "many empty groups": lambda n: ("[ab]*a[ab]*" + "()" * n * 20 + "c", "a" * 128),
    "choices of nothing": lambda n: ("(?!x)(?:" + "(?:|(?=))" * n + "b|)", ""),
}
SIZES = (10, 20, 40)
WILDCARDS = ["*a" * 20 + "b", "a*" * 30 + "b", "*a*" + "a" * 50 + "*b", "*" * 40 + "b"]
RESOURCE = {"Q": {"Type": "AWS::CloudFormation::WaitConditionHandle"}}
Door = Callable[[InProcessCloud], Any]
DOORS: dict[str, Door] = {}


def door(function: Door) -> Door:
    DOORS[function.__name__] = function
    return function


def fuzzed(count: int = 15) -> Iterator[str]:
    """Yield random patterns of nested repeats."""
    chance = random.Random(11)

    def part(depth: int) -> str:
        inner = (
            chance.choice(["a", ".", "[a-z]", r"\w", "aa|a", "a|b"])
            if depth == 0
            else part(depth - 1)
        )
        repeat = chance.choice(["*", "+", "{1,20}", "{2,}", "*?", "+?"])
        return f"({chance.choice(['', '?:'])}{inner}){repeat}"

    for _ in range(count):
        yield "".join(
            part(chance.randint(1, 3)) for _ in range(chance.randint(1, 3))
        ) + chance.choice("!b$")


def answers(call: Callable[[str], Any], patterns: list[str]) -> str:
    """Send every pattern; return what was answered to the first."""
    said = ""
    for pattern in patterns:
        try:
            answer = str(call(pattern))
        except ClientError as error:
            answer = error.response["Error"]["Message"]
        said = said or answer
    return said


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
