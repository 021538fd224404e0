"""Small texts in every language that clients give us to evaluate, which ask for gigabytes or never end.

Each bomb goes off by one call, or by calls that set it up first, and returns what was answered. `Lab` holds what they
need on a cloud that runs; everything a bomb is given is at most AWS's own size.
"""

from __future__ import annotations

import itertools
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.support.server import wait_until

ACCOUNT = "000000000000"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/r"
LOOP = "#foreach($i in [1..1000])"
TEXT = "a" * 200_000
# How long an answer may take: an endless expression has five seconds of processor time, on a busy machine.
ANSWERED_WITHIN_S = 120
Bomb = Callable[["Lab"], str]
BOMBS: dict[str, tuple[Bomb, str]] = {}


class Lab:
    """A running cloud with a REST API, a thing's topic, a table, a log group and a domain."""

    def __init__(self, endpoint_url: str) -> None:
        self.endpoint_url = endpoint_url
        self._clients: dict[str, Any] = {}
        self.numbers = itertools.count(1)
        self.making = threading.Lock()

    def client(self, service: str) -> Any:
        """Return a client that waits and never repeats a call."""
        if service not in self._clients:
            once = Config(
                read_timeout=ANSWERED_WITHIN_S,
                retries={"total_max_attempts": 1},
                inject_host_prefix=False,
                max_pool_connections=50,
            )
            self._clients[service] = boto3.client(
                service,
                endpoint_url=self.endpoint_url,
                region_name="us-east-1",
                aws_access_key_id=ACCOUNT,
                aws_secret_access_key="x",
                config=once,
            )
        return self._clients[service]

    def set_up(self) -> None:
        """Make what the bombs need."""
        self.api = self.client("apigateway").create_rest_api(name="bombs")["id"]
        self.root = self.client("apigateway").get_resources(restApiId=self.api)["items"][0]["id"]
        table = {
            "Name": "t",
            "PartitionKeys": [{"Name": "a", "Type": "int"}],
            "StorageDescriptor": {"Columns": []},
        }
        glue = self.client("glue")
        glue.create_database(DatabaseInput={"Name": "d"})
        glue.create_table(DatabaseName="d", TableInput=table)
        one = {"Values": ["1"], "StorageDescriptor": {"Columns": []}}
        glue.create_partition(DatabaseName="d", TableName="t", PartitionInput=one)
        self.client("dynamodb").create_table(
            TableName="t",
            KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        self.client("dynamodb").put_item(TableName="t", Item={"k": {"S": "x"}, "n": {"N": "1"}})
        self.client("opensearch").create_domain(DomainName="bombs")
        self.search("/f/_doc/1?refresh=true", {"note": "late"})

    def http(self, path: str, body: bytes, kind: str = "application/json") -> str:
        """Post a body; return the answer's status and text."""
        request = urllib.request.Request(
            self.endpoint_url + path, body, {"Content-Type": kind}, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=ANSWERED_WITHIN_S) as answer:
                return f"{answer.status} {answer.read()[:2000].decode()}"
        except urllib.error.HTTPError as error:
            return f"{error.code} {error.read()[:2000].decode()}"

    def search(self, path: str, body: Any) -> str:
        """Ask the domain's index."""
        endpoint = self.client("opensearch").describe_domain(DomainName="bombs")["DomainStatus"]
        where = str(endpoint["Endpoint"])
        base = where.partition("/")[2]
        return self.http(f"/{base}{path}", json.dumps(body).encode())

    def state(self, state: dict[str, Any], given: Any = None, language: str = "JSONPath") -> str:
        """Run a state by TestState; return its output, or its error and cause."""
        answer = self.client("stepfunctions").test_state(
            definition=json.dumps(
                {"Type": "Pass", "End": True, "QueryLanguage": language, **state}
            ),
            roleArn=ROLE,
            input=json.dumps(given or {}),
        )
        if "error" in answer:
            return f"{answer['error']}: {answer['cause']}"
        return str(answer["output"])

    def execution(self, state: dict[str, Any], given: Any = None) -> str:
        """Run a state as an execution; return its output, or its error and cause."""
        number = next(self.numbers)
        states = self.client("stepfunctions")
        body = {"StartAt": "A", "States": {"A": {"Type": "Pass", "End": True, **state}}}
        machine = states.create_state_machine(
            name=f"m{number}", definition=json.dumps(body), roleArn=ROLE
        )["stateMachineArn"]
        run = states.start_execution(stateMachineArn=machine, input=json.dumps(given or {}))
        return self.ended(run["executionArn"])

    def ended(self, execution: str) -> str:
        """Wait for an execution; return its output, or its error and cause."""
        states = self.client("stepfunctions")

        def described() -> Any:
            answer = states.describe_execution(executionArn=execution)
            return None if answer["status"] == "RUNNING" else answer

        answer = wait_until(described, within_s=ANSWERED_WITHIN_S, what="the execution's end")
        return f"{answer.get('error')}: {answer.get('cause')}{answer.get('output', '')}"

    def method(self, template: str) -> str:
        """Make a method whose request is mapped by a template; return its path.

        One at a time: the deployment that is made last is the stage's, and would lack another's half-made method.
        """
        with self.making:
            return self._make_method(template)

    def _make_method(self, template: str) -> str:
        number = next(self.numbers)
        api, gateway = self.api, self.client("apigateway")
        resource = gateway.create_resource(
            restApiId=api, parentId=self.root, pathPart=f"p{number}"
        )["id"]
        where = {"restApiId": api, "resourceId": resource, "httpMethod": "POST"}
        gateway.put_method(**where, authorizationType="NONE")
        gateway.put_method_response(**where, statusCode="200")
        # The template of the answer sees the body that the request's has made.
        gateway.put_integration(
            **where, type="MOCK", requestTemplates={"application/json": '{"statusCode": 200}'}
        )
        gateway.put_integration_response(
            **where, statusCode="200", responseTemplates={"application/json": template}
        )
        gateway.create_deployment(restApiId=api, stageName="s")
        return f"/_aws/execute-api/{api}/s/p{number}"

    def mapped(self, template: str) -> str:
        """Fill a mapping template."""
        return self.http(self.method(template), b'{"a": 1}')


def refused(call: Callable[..., Any], **given: Any) -> str:
    """Return the code and the sentence of a call's error; the answer of a call without one."""
    try:
        return str(call(**given))
    except ClientError as error:
        return f"{error.response['Error']['Code']}: {error.response['Error']['Message']}"


def bomb(said: str) -> Callable[[Bomb], Bomb]:
    """Name a bomb after its function; `said` is a part of the answer."""

    def named(function: Bomb) -> Bomb:
        BOMBS[function.__name__] = function, said
        return function

    return named


def of_parameters(value: str) -> dict[str, Any]:
    return {"Parameters": {"r.$": value}}


# --- Step Functions -------------------------------------------------------------------------------------


@bomb("States.IntrinsicFailure: An error occurred while executing the state")
def array_range_by_test_state(lab: Lab) -> str:
    return lab.state(of_parameters("States.ArrayRange(0, 999999999, 1)"))


@bomb("States.IntrinsicFailure")
def array_range_by_an_execution(lab: Lab) -> str:
    return lab.execution(of_parameters("States.ArrayRange(0, 999999999, 1)"))


@bomb("States.IntrinsicFailure")
def pythons_format(lab: Lab) -> str:
    return lab.state(of_parameters("States.Format('{0:>999999999}', 1)"))


@bomb("States.DataLimitExceeded")
def format_of_formats(lab: Lab) -> str:
    value = "$.x"
    for _ in range(3):
        value = f"States.Format('{{}}{{}}{{}}{{}}', $.x, {value}, {value}, {value})"
    return lab.state(of_parameters(value), {"x": TEXT})


@bomb("States.DataLimitExceeded")
def arrays_of_arrays(lab: Lab) -> str:
    value = "$.x"
    for _ in range(8):
        value = f"States.Array({value}, {value})"
    return lab.state(of_parameters(value), {"x": TEXT[:10_000]})


@bomb("States.DataLimitExceeded")
def a_thousand_copies(lab: Lab) -> str:
    return lab.state({"Parameters": {f"a{number}.$": "$.x" for number in range(1000)}}, {"x": TEXT})


@bomb("States.Runtime")
def descents_of_descents(lab: Lab) -> str:
    value: Any = 1
    for _ in range(50):
        value = {"a": value, "b": [value]} if len(json.dumps(value)) < 50_000 else [value]
    return lab.state(of_parameters("$" + "..*" * 6), value)


@bomb("States.DataLimitExceeded")
def variables_that_swell(lab: Lab) -> str:
    swelling = {f"v{number}": "{% $states.input.x & $states.input.x %}" for number in range(40)}
    return lab.state({"Assign": swelling}, {"x": TEXT}, "JSONata")


@bomb("history has more bytes")
def a_loop_with_large_data(lab: Lab) -> str:
    states = lab.client("stepfunctions")
    a_state = {"Type": "Pass", "Next": "A"}
    machine = states.create_state_machine(
        name="loop",
        definition=json.dumps({"StartAt": "A", "States": {"A": a_state}}),
        roleArn=ROLE,
    )["stateMachineArn"]
    run = states.start_execution(stateMachineArn=machine, input=json.dumps({"x": TEXT}))
    return lab.ended(run["executionArn"])


@bomb("States.QueryEvaluationError")
def endless_jsonata(lab: Lab) -> str:
    return lab.state({"Output": "{% ($f := function(){ $f() }; $f()) %}"}, None, "JSONata")


@bomb("States.QueryEvaluationError")
def jsonata_that_swells(lab: Lab) -> str:
    text = "(" + "$x := $x & $x; " * 60 + "$x)"
    return lab.state({"Output": "{% ($x := 'aaaaaaaa'; " + text + ") %}"}, None, "JSONata")


@bomb("States.QueryEvaluationError")
def jsonata_of_lists_of_lists(lab: Lab) -> str:
    text = "($x := [1, 2]; " + "$x := [$x, [$x]]; " * 50 + "$x)"
    return lab.state({"Output": "{% " + text + " %}"}, None, "JSONata")


@bomb("States.QueryEvaluationError")
def a_pattern_in_jsonata(lab: Lab) -> str:
    text = "$match('" + "a" * 40 + "!', /(a|a)+$/)"
    return lab.state({"Output": "{% " + text + " %}"}, None, "JSONata")


# --- API Gateway ----------------------------------------------------------------------------------------


def of_template(template: str) -> Bomb:
    return lambda lab: lab.mapped(template)


_TEMPLATES = {
    "a_list_that_grows": f"#set($a=[1]){LOOP}{LOOP}#set($x=$a.add($a))#end#end$a",
    "a_text_that_doubles": f"#set($s='aaaaaaaa'){LOOP}#set($s=\"$s$s\")#end",
    "sums_of_texts": f"#set($s='aaaaaaaa'){LOOP}#set($s=$s+$s)#end",
    "splits_that_stay": f"#set($s='a')#set($k=[]){LOOP}#set($s=$s+'aaaaaaaaaaaa')#set($x=$k.add($s.split('a')))#end"
    f"{LOOP}#set($x=$k.add($s.split('a')))#end",
    "replacements": f"#set($s='a'){LOOP}#set($s=$s.replace('a','aaaaaaaaaa'))#end",
    "base64_of_base64": f"#set($s='aaaaaaaa'){LOOP}#set($s=$util.base64Encode($s+$s))#end",
    "entries_of_entries": f'#set($m={{}}){LOOP}$m.put("k$i",$m.entrySet())#end$m',
    "loops_in_loops": LOOP * 5 + "x" + "#end" * 5,
    "lists_compared": f"#set($a=[1..1000])#set($b=[1..1000]){LOOP}{LOOP}#if($a==$b)x#end#end#end",
}
BOMBS |= {name: (of_template(text), "500 {") for name, text in _TEMPLATES.items()}


# --- the others -----------------------------------------------------------------------------------------


def rule(lab: Lab, name: str, condition: str) -> str:
    return refused(
        lab.client("iot").create_topic_rule,
        ruleName=name,
        topicRulePayload={"sql": f"SELECT * FROM 'bombs' WHERE {condition}", "actions": []},
    )


@bomb("200")
def nine_thousand_ors_in_a_rule(lab: Lab) -> str:
    rule(lab, "ors", " OR ".join(["1=1"] * 9000))
    return refused(lab.client("iot-data").publish, topic="bombs", payload=b'{"a": 1}')


@bomb("SqlParseException")
def brackets_in_a_rule(lab: Lab) -> str:
    return rule(lab, "brackets", "(" * 20_000 + "1=1" + ")" * 20_000)


@bomb("200")
def texts_that_swell_in_a_rule(lab: Lab) -> str:
    rule(lab, "swell", "concat(" + ",".join(["a"] * 10_000) + ") = 'x'")
    message = json.dumps({"a": TEXT[:100_000]}).encode()
    return refused(lab.client("iot-data").publish, topic="bombs", payload=message)


@bomb("200 {")
def a_thousand_clauses(lab: Lab) -> str:
    clauses = [{"term": {"note.keyword": "late"}}] * 1000
    return lab.search("/f/_search", {"query": {"bool": {"should": clauses}}})


@bomb("0 {")
def a_thousand_matches(lab: Lab) -> str:
    # Found, or cancelled because it takes too long: 200 or 400.
    clauses = [{"match": {"note": "late"}}] * 1000
    return lab.search("/f/_search", {"query": {"bool": {"should": clauses}}}).replace("500 {", "")


@bomb("too_many_clauses")
def ten_thousand_clauses(lab: Lab) -> str:
    clauses = [{"match": {"note": "late"}}] * 10_000
    return lab.search("/f/_search", {"query": {"bool": {"should": clauses}}})


@bomb("InvalidInputException")
def brackets_in_glue(lab: Lab) -> str:
    expression = "(" * 900 + "a=1" + ")" * 900
    call = lab.client("glue").get_partitions
    return refused(call, DatabaseName="d", TableName="t", Expression=expression)


@bomb("ValidationException")
def brackets_in_dynamodb(lab: Lab) -> str:
    return refused(
        lab.client("dynamodb").scan,
        TableName="t",
        FilterExpression="(" * 1500 + "n=:v" + ")" * 1500,
        ExpressionAttributeValues={":v": {"N": "1"}},
    )


@bomb("")
def an_endless_query_of_firehose(lab: Lab) -> str:
    processor = {
        "Type": "MetadataExtraction",
        "Parameters": [
            {"ParameterName": "MetadataExtractionQuery", "ParameterValue": "{c: (def f: f; f)}"},
            {"ParameterName": "JsonParsingEngine", "ParameterValue": "JQ-1.6"},
        ],
    }
    lab.client("s3").create_bucket(Bucket="bombs")
    lab.client("firehose").create_delivery_stream(
        DeliveryStreamName="bombs",
        ExtendedS3DestinationConfiguration={
            "RoleARN": ROLE,
            "BucketARN": "arn:aws:s3:::bombs",
            "Prefix": "!{partitionKeyFromQuery:c}/",
            "ErrorOutputPrefix": "bad/",
            "BufferingHints": {"SizeInMBs": 64, "IntervalInSeconds": 60},
            "DynamicPartitioningConfiguration": {"Enabled": True},
            "ProcessingConfiguration": {"Enabled": True, "Processors": [processor]},
        },
    )
    record = {"Data": b'{"a": 1}'}
    answer = lab.client("firehose").put_record_batch(
        DeliveryStreamName="bombs", Records=[record] * 50
    )
    return str(answer["FailedPutCount"])


# --- by a template alone --------------------------------------------------------------------------------


def template(at: str) -> dict[str, Any]:
    """Return a template whose schedule starts a state machine with bombs at a time, and which has a rule with one."""
    states = {
        "A": {**of_parameters("States.ArrayRange(0, 999999999, 1)"), "Type": "Pass", "End": True},
        "B": {**of_parameters("States.Format('{0:>999999999}', 1)"), "Type": "Pass", "End": True},
        "C": {
            "Type": "Pass",
            "QueryLanguage": "JSONata",
            "Output": "{% ($f := function(){ $f() }; $f()) %}",
            "End": True,
        },
    }
    machines = {
        f"Machine{name}": {
            "Type": "AWS::StepFunctions::StateMachine",
            "Properties": {
                "StateMachineName": f"by-template-{name}",
                "RoleArn": ROLE,
                "DefinitionString": json.dumps({"StartAt": name, "States": {name: state}}),
            },
        }
        for name, state in states.items()
    }
    schedules = {
        f"Schedule{name}": {
            "Type": "AWS::Scheduler::Schedule",
            "Properties": {
                "ScheduleExpression": f"at({at})",
                "FlexibleTimeWindow": {"Mode": "OFF"},
                "Target": {"Arn": {"Ref": f"Machine{name}"}, "RoleArn": ROLE, "Input": "{}"},
            },
        }
        for name in states
    }
    return {"Resources": {**machines, **schedules}}


def forget_peak(pid: int) -> None:
    """Make `memory_mib` count from now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def memory_mib(pid: int, name: str = "VmHWM") -> int:
    """Return the most memory that a process has had; with `VmRSS`, what it has."""
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith(f"{name}:")]
    return int(line.split()[1]) >> 10
