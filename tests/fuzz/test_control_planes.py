"""Control planes under random requests: never a 500, never an answer that botocore cannot read.

CloudFormation, Cloud Control, EMR, EMR Serverless, Redshift's Data API and the tagging API: the query protocol, JSON
and REST-JSON.

Ten requests an operation here, 10,000 with `--nightly`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.calls.operation import operation_name
from headrace.services.cloudcontrol.actions import ACTIONS as CLOUDCONTROL
from headrace.services.cloudformation.actions import ACTIONS as CLOUDFORMATION
from headrace.services.emr.actions import ACTIONS as EMR
from headrace.services.emr_serverless.actions import ACTIONS as EMR_SERVERLESS
from headrace.services.redshift_data.actions import ACTIONS as REDSHIFT_DATA
from headrace.services.tagging.actions import ACTIONS as TAGGING
from tests.fuzz.conftest import cloud_scope
from tests.fuzz.requests import Requests
from tests.fuzz.sending import check_answer, model_of, request_of
from tests.fuzz.upkeep import Caller, Upkeep
from tests.support.cloud import InProcessCloud
from tests.support.emr import cluster_request

REQUESTS = 10
NIGHTLY_REQUESTS = 10_000
PUT_RIGHT_EVERY = 20
SCOPES = {
    "cloudcontrol": "cloudcontrolapi",
    "cloudformation": "cloudformation",
    "emr": "elasticmapreduce",
    "emr-serverless": "emr-serverless",
    "redshift-data": "redshift-data",
    "resourcegroupstaggingapi": "tagging",
}
BUILT = {
    "cloudcontrol": CLOUDCONTROL,
    "cloudformation": CLOUDFORMATION,
    "emr": EMR,
    "emr-serverless": EMR_SERVERLESS,
    "redshift-data": REDSHIFT_DATA,
    "resourcegroupstaggingapi": TAGGING,
}
CASES = [
    (service, name) for service in BUILT for name in sorted(map(operation_name, BUILT[service]))
]
STREAM = "arn:aws:kinesis:us-east-1:000000000000:stream/in"
_TOPIC = {"Type": "AWS::SNS::Topic", "Properties": {"DisplayName": {"Ref": "P"}}}
_SOUND = {
    "Parameters": {"P": {"Type": "String", "Default": "d", "AllowedValues": ["d", "e"]}},
    "Conditions": {"C": {"Fn::Equals": [{"Ref": "P"}, "d"]}},
    "Mappings": {"M": {"a": {"b": "c"}}},
    "Resources": {"T": _TOPIC, "U": {**_TOPIC, "Condition": "C", "DependsOn": "T"}},
    "Outputs": {"O": {"Value": {"Fn::GetAtt": ["T", "TopicName"]}, "Export": {"Name": "e"}}},
}


class Target:
    """A cloud with something of everything, put right again after requests that deleted it."""

    def __init__(self, cloud: InProcessCloud) -> None:
        self.cloud = cloud
        self.clients = {name: Caller(name, SCOPES[name], cloud.handle) for name in BUILT}
        self.cluster = self.group = self.step = self.ui = self.application = self.set_arn = ""
        self.kinesis = Caller("kinesis", "kinesis", cloud.handle)
        self.kinesis.create_stream(StreamName="in", ShardCount=1)

    def put_right(self, service: str) -> None:
        """Make what requests of the service need."""
        getattr(self, "_put_right_" + service.replace("-", "_"))()

    def _put_right_cloudformation(self) -> None:
        cfn = self.clients["cloudformation"]
        have = {stack["StackName"]: stack for stack in cfn.describe_stacks()["Stacks"]}
        for name, stack in have.items():
            if stack.get("EnableTerminationProtection"):
                cfn.update_termination_protection(StackName=name, EnableTerminationProtection=False)
            if name != "s" and not stack["StackStatus"].endswith("IN_PROGRESS"):
                cfn.delete_stack(StackName=name)
        body = json.dumps(_SOUND)
        if "s" not in have:
            cfn.create_stack(StackName="s", TemplateBody=body)
        try:
            made = cfn.create_change_set(StackName="s", ChangeSetName="cs", TemplateBody=body)
            self.set_arn = made["Id"]
        except ClientError:
            self.set_arn = self.set_arn or "arn:aws:cloudformation:us-east-1:0:changeSet/cs/1"

    def _put_right_cloudcontrol(self) -> None:
        state = '{"TopicName": "controlled"}'
        self.clients["cloudcontrol"].create_resource(TypeName="AWS::SNS::Topic", DesiredState=state)

    def _put_right_emr(self) -> None:
        emr = self.clients["emr"]
        living = ["STARTING", "BOOTSTRAPPING", "RUNNING", "WAITING"]
        for found in emr.list_clusters(ClusterStates=living)["Clusters"]:
            ids = [found["Id"]]
            emr.set_termination_protection(JobFlowIds=ids, TerminationProtected=False)
            emr.terminate_job_flows(JobFlowIds=ids)
        groups = [
            {"InstanceRole": "MASTER", "InstanceType": "m5.xlarge", "InstanceCount": 1},
            {"InstanceRole": "CORE", "InstanceType": "m5.xlarge", "InstanceCount": 2},
        ]
        instances = {"KeepJobFlowAliveWhenNoSteps": True, "InstanceGroups": groups}
        made = emr.run_job_flow(**cluster_request(Instances=instances))
        self.cluster = made["JobFlowId"]
        found = emr.list_instance_groups(ClusterId=self.cluster)["InstanceGroups"]
        self.group = found[1]["Id"]
        step = {"Name": "s", "HadoopJarStep": {"Jar": "s3://none/x.jar"}}
        added = emr.add_job_flow_steps(
            JobFlowId=self.cluster, Steps=[{**step, "ActionOnFailure": "CONTINUE"}]
        )
        self.step = added["StepIds"][0]
        ui = emr.create_persistent_app_ui(TargetResourceArn=made["ClusterArn"])
        self.ui = ui["PersistentAppUIId"]

    def _put_right_emr_serverless(self) -> None:
        serverless = self.clients["emr-serverless"]
        for found in serverless.list_applications()["applications"]:
            if found["state"] in ("CREATED", "STOPPED"):
                serverless.delete_application(applicationId=found["id"])
        # It starts nothing by itself: no run of it ever begins.
        self.application = serverless.create_application(
            type="SPARK",
            releaseLabel="emr-7.13.0",
            autoStartConfiguration={"enabled": False},
            clientToken=str(len(self.application)),
        )["applicationId"]

    def _put_right_redshift_data(self) -> None:
        """There is nothing to make: without a PostgreSQL every statement fails, and is kept as failed."""

    def _put_right_resourcegroupstaggingapi(self) -> None:
        self.kinesis.add_tags_to_stream(StreamName="in", Tags={"a": "b"})

    def known(self, service: str) -> dict[str, Any]:
        """Return sound values for members by name."""

        def one_of(*values: Any) -> Callable[[Random], Any]:
            return lambda random: random.choice(values)

        nothing = {
            "cloudcontrol": {
                "TypeName": one_of(
                    "AWS::SNS::Topic", "AWS::SNS::Topic", "AWS::No::Type", "AWS::CDK::Metadata"
                ),
                "Identifier": one_of("arn:aws:sns:us-east-1:000000000000:controlled", "none"),
                "DesiredState": one_of(
                    '{"TopicName": "controlled"}',
                    '{"TopicName": 5}',
                    "[]",
                    "no JSON",
                    "[" * 5000,
                    "{}",
                ),
                "PatchDocument": one_of(
                    '[{"op": "add", "path": "/DisplayName", "value": "d"}]',
                    '[{"op": "add"}]',
                    "{}",
                    "[[]]",
                    '[{"op": 1, "path": 2}]',
                    '[{"op": "replace", "path": "", "value": 3}]',
                    "[" * 5000,
                ),
                "NextToken": one_of("x", "MQ=="),
                "ClientToken": one_of("one", "two"),
            },
            "cloudformation": {
                "StackName": one_of("s", "s", "s", "no-such", "arn:aws:cloudformation:x"),
                "ChangeSetName": lambda random: random.choice(("cs", "other", self.set_arn)),
                "ChangeSetType": one_of("UPDATE", "CREATE"),
                "TemplateBody": _template,
                "TemplateURL": one_of(None),
                "StackPolicyURL": one_of(None),
                "LogicalResourceId": one_of("T", "U", "none"),
                "NextToken": one_of("1", "0", "x", "-1", "9" * 30),
                "Capabilities": one_of([], ["CAPABILITY_IAM"]),
                "ResourceTypes": one_of([], ["AWS::SNS::*"]),
                "StackPolicyBody": one_of("{}", "no JSON", '{"Statement":[{}]}'),
                "ExportName": one_of("e", "none"),
                "RoleARN": one_of(None),
            },
            "emr": {
                "ClusterId": lambda random: random.choice((self.cluster, self.cluster, "j-NONE")),
                "JobFlowId": lambda random: self.cluster,
                "JobFlowIds": lambda random: [self.cluster],
                "ResourceId": lambda random: self.cluster,
                "StepId": lambda random: self.step,
                "StepIds": lambda random: [self.step],
                "InstanceGroupId": lambda random: self.group,
                "PersistentAppUIId": lambda random: self.ui,
                "Name": one_of("sec", "a name"),
                "SecurityConfiguration": one_of("{}", "no JSON"),
                "ReleaseLabel": one_of("emr-7.13.0", "emr-5.6.0", "x"),
                # Nothing that could be run.
                "Jar": one_of("s3://none/x.jar", "command-runner.jar"),
                "Args": one_of([], ["no-such-command"]),
                "BootstrapActions": one_of([]),
                "LogUri": one_of("s3://none/logs/"),
                "InstanceFleets": one_of([]),
                "Marker": one_of("x", "1"),
                "ClusterStates": one_of(["WAITING"], []),
            },
            "emr-serverless": {
                "applicationId": lambda random: random.choice((self.application, "00none")),
                "jobRunId": one_of("00none"),
                "releaseLabel": one_of("emr-7.13.0", "x"),
                "type": one_of("SPARK", "Hive"),
                "entryPoint": one_of("s3://none/x.py"),
                "resourceArn": lambda random: (
                    f"arn:aws:emr-serverless:us-east-1:000000000000:/applications/{self.application}"
                ),
                # Such an application would start by itself.
                "autoStartConfiguration": one_of({"enabled": False}),
                "nextToken": one_of("x", "1"),
            },
            "redshift-data": {
                "ClusterIdentifier": one_of("flights", "none", None),
                "WorkgroupName": one_of(None, "none"),
                "SessionId": one_of(None),
                "SessionKeepAliveSeconds": one_of(None),
                "Id": one_of("d9b6c0c9-0747-4bf4-b142-e8883122f766", "none"),
                "WaitTimeSeconds": one_of(0, -1, 31),
                "Sql": one_of("select 1", "select :a", "", "no SQL", "select ':"),
                "Sqls": one_of(["select 1"], []),
                "Database": one_of("dev", "none"),
                "SecretArn": one_of("arn:aws:secretsmanager:us-east-1:000000000000:secret:s", None),
                "StatementName": one_of("s", "%"),
                "NextToken": one_of("x", "MQ=="),
            },
            "resourcegroupstaggingapi": {
                "ResourceARNList": one_of([STREAM], ["x"], [STREAM, "arn:aws:s3:::none"]),
                "ResourceTypeFilters": one_of(["kinesis:stream"], ["s3"], ["x:y"]),
                "PaginationToken": one_of("", "x"),
                "ResourcesPerPage": one_of(1, 100, 0, 101),
                "TagsPerPage": one_of(100, 500, 1),
                "Key": one_of("a", "none"),
            },
        }
        return nothing[service]

    def send(
        self, service: str, operation: str, params: Mapping[str, Any], random: Random
    ) -> HttpResponse | None:
        """Serialize and send a request, its body now and then damaged; None for what cannot be one."""
        sent = request_of(service, operation, params, random, SCOPES[service])
        if sent is None:
            return None
        return self.cloud.handle(sent)


def _template(random: Random) -> str:
    """Return a sound template, or one with a flaw, or nonsense."""
    text = json.dumps(_SOUND)
    way = random.randrange(4)
    if way == 0:
        return text
    if way == 1:
        at = random.randrange(len(text))
        return text[:at] + random.choice('{}[]",:$x0') + text[at + 1 :]
    if way == 2:
        odd: Any = random.choice((None, 1, "x", [], {}, [{}], {"Ref": "none"}, {"Fn::Sub": "${"}))
        section = random.choice(sorted(_SOUND))
        return json.dumps({**_SOUND, section: random.choice((odd, {"X": odd}, {"X": {"Y": odd}}))})
    return random.choice(("", "{", "Resources: [", "a: &b\n*b", "\x00", "!Ref x", "null", "[]"))


@pytest.fixture(scope=cloud_scope)
def target(place: Path) -> Iterator[Target]:
    with InProcessCloud(Path(mkdtemp(dir=place)) / "data", spark="installed") as cloud:
        yield Target(cloud)


@pytest.mark.parametrize(("service", "operation"), CASES)
def test_no_request_breaks_an_operation(
    target: Target, service: str, operation: str, how_many: Callable[[int, int], int], seed: int
):
    upkeep = Upkeep(operation, PUT_RIGHT_EVERY, lambda: target.put_right(service))
    made = Requests(f"{service}-{operation}-{seed}", target.known(service))
    answered = 0
    for number in range(how_many(REQUESTS, NIGHTLY_REQUESTS)):
        upkeep.before(number)
        params = made.of(model_of(service).operation_model(operation))
        if not isinstance(params, dict):
            continue
        answer = target.send(service, operation, params, made.random)
        if answer is None:
            continue
        answered += 1
        upkeep.after(answer.status)
        try:
            check_answer(service, operation, answer)
        except Exception as error:
            raise AssertionError(f"{operation} {number}: {params!r}") from error
    assert answered


@pytest.mark.parametrize(
    "form",
    [
        "ResourcesToImport.member.1.ResourceIdentifier.entry.1.key=a",
        "ResourcesToImport.member.1.ResourceIdentifier=a",
        "Capabilities.member.99999999999=a",
        "Tags.member.1=x",
        "Parameters.member.1.ParameterValue=x",
    ],
)
def test_forms_that_say_half_are_refused(target: Target, form: str):
    text = f"Action=CreateChangeSet&Version=2010-05-15&StackName=s&ChangeSetName=c&{form}"
    scope = "000000000000/20260101/us-east-1/cloudformation/aws4_request"
    headers = {
        "content-type": "application/x-www-form-urlencoded",
        "authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0",
    }
    answer = target.cloud.handle(HttpRequest("POST", "/", "", headers, text.encode()))
    assert answer.status == 400, answer.body
