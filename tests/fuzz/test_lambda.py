"""Every operation of Lambda under random requests, sound and mutated: never a 500; botocore reads every answer.

Six requests an operation here, 10,000 with `--nightly`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import botocore.session
import pytest
from botocore import parsers

from headrace.aws.calls.http import HttpResponse
from headrace.aws.calls.operation import operation_name
from headrace.services.lambda_.actions import ACTIONS
from tests.fuzz.requests import Requests
from tests.fuzz.sending import request_of
from tests.fuzz.upkeep import Caller, Upkeep
from tests.support.clock import HandClock
from tests.support.lambda_lab import QUEUE, ROLE, LambdaLab, zipped
from tests.support.streams import STREAM_ARN

MODEL = botocore.session.get_session().get_service_model("lambda")
PARSER: Any = parsers.create_parser("rest-json")
BUILT = sorted(map(operation_name, ACTIONS))
REQUESTS = 6
NIGHTLY_REQUESTS = 10_000
CODE = zipped({"app.py": "def handler(event, context):\n    return event\n"})
ARN = "arn:aws:lambda:us-east-1:000000000000:"
SIGNING = ARN + "code-signing-config:csc-0123456789abcdef0"


class Target:
    """A Lambda with a function, a version, an alias, a layer and a mapping, put right again after each operation."""

    def __init__(self, lab: LambdaLab, clock: HandClock) -> None:
        self.lab = lab
        self.clock = clock
        self.client = Caller("lambda", "lambda", lab.handle)
        self.uuid = ""
        self.signing = SIGNING

    def put_right(self) -> None:
        client = self.client
        self.clock.advance(10)
        for function in client.list_functions()["Functions"]:
            client.delete_function(FunctionName=function["FunctionName"])
        client.create_function(
            FunctionName="f",
            Role=ROLE,
            Runtime="python3.12",
            Handler="app.handler",
            Code={"ZipFile": CODE},
            Publish=True,
        )
        client.create_alias(FunctionName="f", Name="live", FunctionVersion="1")
        client.publish_layer_version(LayerName="l", Content={"ZipFile": CODE})
        for mapping in client.list_event_source_mappings()["EventSourceMappings"]:
            client.delete_event_source_mapping(UUID=mapping["UUID"])
        self.uuid = client.create_event_source_mapping(
            FunctionName="f", EventSourceArn=STREAM_ARN, StartingPosition="LATEST", Enabled=False
        )["UUID"]
        made = client.create_code_signing_config(
            AllowedPublishers={"SigningProfileVersionArns": ["arn:aws:signer:us-east-1::x"]}
        )
        self.signing = made["CodeSigningConfig"]["CodeSigningConfigArn"]

    def known(self) -> dict[str, Any]:
        """Return sound values for members by name."""

        def one_of(*values: Any) -> Any:
            return lambda random: random.choice(values)

        names = ("f", "f:live", "f:1", "f:$LATEST", f"{ARN}function:f", "new", "none", "*")
        return {
            "FunctionName": one_of(*names),
            "Qualifier": one_of("live", "1", "$LATEST", "9", "none"),
            "Name": one_of("live", "other", "7"),
            "FunctionVersion": one_of("1", "$LATEST", "9", "ALL"),
            "AdditionalVersionWeights": one_of({}, {"1": 0.5}, {"9": 2}),
            "Role": one_of(ROLE),
            "Runtime": one_of("python3.12", "nodejs20.x", "java8", "java21", "none"),
            "Handler": one_of("app.handler"),
            "Code": one_of({"ZipFile": CODE}, {}, {"S3Bucket": "b", "S3Key": "k"}),
            "Content": one_of({"ZipFile": CODE}, {}),
            "ZipFile": one_of(CODE, b"no zip", b"PK\3\4"),
            "PackageType": one_of("Zip", "Image"),
            "Layers": one_of([], [f"{ARN}layer:l:1"], [f"{ARN}layer:none:1"]),
            "LayerName": one_of("l", "none", f"{ARN}layer:l"),
            "VersionNumber": one_of(1, 2, 0, -1),
            "Arn": one_of(f"{ARN}layer:l:1", f"{ARN}layer:l"),
            "Resource": lambda random: random.choice(
                (f"{ARN}function:f", f"{ARN}event-source-mapping:{self.uuid}", self.signing)
            ),
            "TagKeys": one_of(["a"], [], ["a", "b"]),
            "UUID": lambda random: random.choice((self.uuid, "none")),
            "EventSourceArn": one_of(STREAM_ARN, QUEUE, "arn:aws:dynamodb:us-east-1:0:table/t"),
            "Pattern": one_of("{}", '{"data":{"a":[1]}}', "{", '{"data":1}'),
            "Destination": one_of(QUEUE, f"{ARN}function:f", "no ARN"),
            "CodeSigningConfigArn": lambda random: random.choice((self.signing, SIGNING)),
            "Principal": one_of("*", "s3.amazonaws.com", "000000000001", "nobody"),
            "SourceArn": one_of("arn:aws:s3:::b"),
            "ProvisionedConcurrentExecutions": one_of(0, 1, 2000),
            "ReservedConcurrentExecutions": one_of(0, 1, 2000),
            "Timeout": one_of(1, 3, 900, 901),
            "Payload": one_of(b"{}", b"", b"no JSON", b"\xff"),
            "InvocationType": one_of("RequestResponse", "Event", "DryRun", "None"),
            "ClientContext": one_of("e30=", "?"),
            "RevisionId": one_of("wrong"),
            "Marker": one_of("x", "", "MQ=="),
        }

    def send(self, operation: str, params: dict[str, Any], random: Random) -> HttpResponse | None:
        """Serialize and send a request, its body now and then damaged; None for what cannot be one."""
        sent = request_of("lambda", operation, params, random, "lambda")
        return None if sent is None else self.lab.handle(sent)


@pytest.fixture(scope="module")
def target(place: Path) -> Iterator[Target]:
    clock = HandClock()
    with LambdaLab(place / "data", clock=clock) as lab:
        yield Target(lab, clock)


def check(operation: str, answer: HttpResponse) -> None:
    """Fail unless the answer is one that AWS could give, as botocore reads it."""
    assert answer.status < 500, answer.body
    assert isinstance(answer.body, bytes)
    headers = {name.lower(): value for name, value in answer.headers}
    if answer.status >= 300:
        assert headers["x-amzn-errortype"]
        assert any(name.lower() == "message" for name in json.loads(answer.body))
        return
    shape = MODEL.operation_model(operation).output_shape
    if operation != "Invoke":
        given = {"status_code": answer.status, "headers": headers, "body": answer.body}
        PARSER.parse(given, shape)


@pytest.mark.parametrize("operation", BUILT)
def test_no_request_breaks_an_operation(
    target: Target, operation: str, how_many: Callable[[int, int], int], seed: int
):
    upkeep = Upkeep(operation, 200, target.put_right)
    random = Random(f"{operation} sent {seed}")
    requests = Requests(f"{operation}-{seed}", target.known())
    sent = 0
    for number in range(how_many(REQUESTS, NIGHTLY_REQUESTS)):
        upkeep.before(number)
        params = requests.of(MODEL.operation_model(operation))
        answer = target.send(operation, params, random) if isinstance(params, dict) else None
        if answer is not None:
            sent += 1
            upkeep.after(answer.status)
            check(operation, answer)
    assert sent
