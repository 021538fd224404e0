"""Invoke: the function's process, its errors, limits, logs."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.core.ports import FunctionNotFound
from tests.support.lambda_lab import LambdaLab, zipped
from tests.support.processes import WHO, is_running, pid_of
from tests.support.server import wait_until

ECHO = """
import os
def handler(event, context):
    return {"event": event, "arn": context.invoked_function_arn, "id": context.aws_request_id,
            "left_ms": context.get_remaining_time_in_millis(), "process": os.environ["AWS_LAMBDA_LOG_STREAM_NAME"],
            "custom": context.client_context.custom if context.client_context else None}
"""


def invoke(lab: LambdaLab, name: str, event: Any = None, **members: Any) -> dict[str, Any]:
    response = lab.client().invoke(FunctionName=name, Payload=json.dumps(event).encode(), **members)
    return {**response, "Payload": json.loads(response["Payload"].read() or b"null")}


@pytest.fixture(scope="module")
def echo(shared_lab: LambdaLab) -> str:
    shared_lab.create("echo", ECHO)
    return "echo"


# --- serialization ----------------------------------------------------------------------------


def test_the_answer_carries_payload_version_and_request_id(
    shared_lab: LambdaLab, echo: str
) -> None:
    answer = invoke(shared_lab, echo, {"a": [1, "ü", None]})
    assert answer["StatusCode"] == 200
    assert answer["ExecutedVersion"] == "$LATEST"
    assert "FunctionError" not in answer
    assert answer["Payload"]["event"] == {"a": [1, "ü", None]}
    assert answer["Payload"]["id"] == answer["ResponseMetadata"]["RequestId"]
    assert answer["Payload"]["arn"].endswith(":function:echo")
    assert 9000 < answer["Payload"]["left_ms"] <= 10_000


def test_client_context_reaches_the_function(shared_lab: LambdaLab, echo: str) -> None:
    context = base64.b64encode(b'{"custom": {"colour": "gr\xc3\xbcn"}}').decode()
    assert invoke(shared_lab, echo, ClientContext=context)["Payload"]["custom"] == {
        "colour": "grün"
    }


def test_the_log_tail_is_returned_when_asked_for(shared_lab: LambdaLab) -> None:
    shared_lab.create("prints", "def handler(e, c):\n    print('x' * 5000)\n    print('the end')\n")
    answer = invoke(shared_lab, "prints", LogType="Tail")
    tail = base64.b64decode(answer["LogResult"]).decode()
    assert len(tail) == 4096
    assert "the end" in tail
    assert tail.splitlines()[-1].startswith("REPORT RequestId: ")
    assert "LogResult" not in invoke(shared_lab, "prints")


def test_a_payload_may_be_missing(shared_lab: LambdaLab, echo: str) -> None:
    response = shared_lab.client().invoke(FunctionName=echo)
    assert json.loads(response["Payload"].read())["event"] == {}


def test_the_control_plane_invokes_in_process(shared_lab: LambdaLab, echo: str) -> None:
    answer = shared_lab.gateway.call(
        "lambda", "Invoke", {"FunctionName": echo, "Payload": b'{"a":1}'}
    )
    assert json.loads(answer["Payload"])["event"] == {"a": 1}
    assert answer["StatusCode"] == 200


# --- validation -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "code", "status"),
    [
        ({"Payload": b"{"}, "InvalidRequestContentException", 400),
        ({"Payload": b"\xff"}, "InvalidRequestContentException", 400),
        ({"LogType": "Head"}, "ValidationException", 400),
        ({"InvocationType": "Later"}, "ValidationException", 400),
        ({"Payload": b" " * (6 * 1024 * 1024 + 1)}, "RequestTooLargeException", 413),
        (
            {"Payload": b" " * (1024 * 1024 + 1), "InvocationType": "Event"},
            "RequestTooLargeException",
            413,
        ),
        ({"Qualifier": "7"}, "ResourceNotFoundException", 404),
        ({"Qualifier": "other"}, "ResourceNotFoundException", 404),
        ({"ClientContext": "no base64!"}, "InvalidRequestContentException", 400),
        ({"FunctionName": "echo:1", "Qualifier": "2"}, "InvalidParameterValueException", 400),
        ({"FunctionName": "bad name!"}, "ValidationException", 400),
    ],
)
def test_bad_invocations_are_refused(
    shared_lab: LambdaLab, echo: str, members: dict[str, Any], code: str, status: int
) -> None:
    with pytest.raises(ClientError) as caught:
        shared_lab.client().invoke(**{"FunctionName": echo, **members})
    response = caught.value.response
    assert response["Error"]["Code"] == code
    assert response["ResponseMetadata"]["HTTPStatusCode"] == status


def test_a_dry_run_checks_and_runs_nothing(shared_lab: LambdaLab) -> None:
    shared_lab.create("dry", "def handler(e, c):\n    raise SystemExit\n")
    assert invoke(shared_lab, "dry", InvocationType="DryRun")["StatusCode"] == 204


# --- behaviour --------------------------------------------------------------------------------


def test_a_process_stays_warm(shared_lab: LambdaLab, echo: str) -> None:
    processes = {invoke(shared_lab, echo)["Payload"]["process"] for _ in range(5)}
    assert len(processes) == 1


def test_concurrent_invocations_run_beside_each_other(
    shared_lab: LambdaLab, tmp_path: Path
) -> None:
    source = (
        "import os, time, pathlib\n"
        "def handler(event, context):\n"
        "    pathlib.Path(event['dir'], context.aws_request_id).touch()\n"
        "    while len(os.listdir(event['dir'])) < 3: time.sleep(0.005)\n"
        "    return os.environ['AWS_LAMBDA_LOG_STREAM_NAME']\n"
    )
    shared_lab.create("meet", source)
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    with ThreadPoolExecutor(3) as threads:
        answers = list(
            threads.map(lambda _: invoke(shared_lab, "meet", {"dir": str(meeting)}), range(3))
        )
    assert len({answer["Payload"] for answer in answers}) == 3


def test_more_invocations_than_processes_wait_their_turn(shared_lab: LambdaLab) -> None:
    shared_lab.create(
        "busy", "import time\ndef handler(e, c):\n    time.sleep(0.02)\n    return e\n"
    )
    with ThreadPoolExecutor(30) as threads:
        answers = list(threads.map(lambda n: invoke(shared_lab, "busy", n), range(30)))
    assert [answer["Payload"] for answer in answers] == list(range(30))


def test_a_raising_handler_is_a_function_error(shared_lab: LambdaLab) -> None:
    shared_lab.create("raises", "def handler(e, c):\n    raise ValueError('no such flight')\n")
    answer = invoke(shared_lab, "raises")
    assert answer["StatusCode"] == 200
    assert answer["FunctionError"] == "Unhandled"
    assert answer["Payload"]["errorType"] == "ValueError"
    assert answer["Payload"]["errorMessage"] == "no such flight"
    assert "stackTrace" in answer["Payload"]


@pytest.mark.parametrize(
    ("source", "handler", "error_type"),
    [
        ("import missing_module\n", "app.handler", "Runtime.ImportModuleError"),
        ("def other(): pass\n", "app.handler", "Runtime.HandlerNotFound"),
        ("def handler(:\n", "app.handler", "Runtime.UserCodeSyntaxError"),
        ("1 / 0\n", "app.handler", "ZeroDivisionError"),
        ("", "handler", "Runtime.MalformedHandlerName"),
    ],
)
def test_a_function_that_cannot_start_says_why(
    lab: LambdaLab, source: str, handler: str, error_type: str
) -> None:
    lab.create("broken", source, handler=handler)
    answer = invoke(lab, "broken")
    assert answer["FunctionError"] == "Unhandled"
    assert answer["Payload"]["errorType"] == error_type


def test_a_function_is_killed_at_its_timeout_and_the_next_call_works(shared_lab: LambdaLab) -> None:
    source = "import time\ndef handler(event, context):\n    time.sleep(event)\n    return 'done'\n"
    shared_lab.create("slow", source, Timeout=1)
    answer = invoke(shared_lab, "slow", 60)
    assert answer["FunctionError"] == "Unhandled"
    assert answer["Payload"]["errorType"] == "Sandbox.Timedout"
    assert answer["Payload"]["errorMessage"].endswith("Error: Task timed out after 1.00 seconds")
    assert any("Task timed out after 1.00 seconds" in line for line in shared_lab.logs.messages())
    assert invoke(shared_lab, "slow", 0)["Payload"] == "done"


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("os._exit(3)", "Runtime exited with error: exit status 3"),
        ("os._exit(0)", "Runtime exited without providing a reason"),
        ("os.kill(os.getpid(), 9)", "Runtime exited with error: signal: killed"),
    ],
)
def test_a_process_that_dies_is_an_error_and_is_replaced(
    shared_lab: LambdaLab, statement: str, why: str
) -> None:
    name = f"dies-{abs(hash(statement))}"
    source = f"import os\ndef handler(event, context):\n    if event: {statement}\n    return 1\n"
    shared_lab.create(name, source)
    answer = invoke(shared_lab, name, True)
    assert answer["Payload"]["errorType"] == "Runtime.ExitError"
    assert answer["Payload"]["errorMessage"].endswith(why)
    assert invoke(shared_lab, name, False)["Payload"] == 1


def test_a_process_that_died_between_invocations_is_replaced(
    shared_lab: LambdaLab,
) -> None:
    shared_lab.create("mortal", WHO)
    name = invoke(shared_lab, "mortal")["Payload"]
    pid = pid_of(name)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_running(name), what="its end")
    assert invoke(shared_lab, "mortal")["Payload"] != name


def test_a_function_that_outgrows_its_memory_is_killed(shared_lab: LambdaLab) -> None:
    source = (
        "import time\ndef handler(event, context):\n"
        "    kept = bytearray(event * 1048576)\n    time.sleep(5 if event > 128 else 0)\n    return len(kept)\n"
    )
    shared_lab.create("grows", source, MemorySize=128)
    assert invoke(shared_lab, "grows", 64)["Payload"] == 64 * 1048576
    answer = invoke(shared_lab, "grows", 200)
    assert answer["Payload"]["errorType"] == "Runtime.OutOfMemory"


def test_an_answer_over_the_limit_is_an_error(shared_lab: LambdaLab) -> None:
    shared_lab.create("wordy", "def handler(e, c):\n    return 'x' * e\n")
    assert len(invoke(shared_lab, "wordy", 6_000_000)["Payload"]) == 6_000_000
    answer = invoke(shared_lab, "wordy", 7_000_000)
    assert answer["Payload"]["errorType"] == "Function.ResponseSizeTooLarge"
    assert len(invoke(shared_lab, "wordy", 10)["Payload"]) == 10


def test_what_a_function_prints_becomes_log_events(lab: LambdaLab) -> None:
    source = (
        "import logging, sys\nprint('starting')\n"
        "def handler(event, context):\n"
        "    print('one'); print('two', file=sys.stderr); logging.getLogger().warning('three')\n"
        "    sys.stdout.write('no newline')\n"
    )
    lab.create("logs", source)
    request_id = invoke(lab, "logs")["ResponseMetadata"]["RequestId"]
    groups = {group for group, _, _ in lab.logs.lines}
    messages = lab.logs.messages()
    assert groups == {"/aws/lambda/logs"}
    assert messages[1:3] == ["starting", f"START RequestId: {request_id} Version: $LATEST"]
    assert messages[3:5] == ["one", "two"]
    assert messages[5].startswith("[WARNING]\t")
    assert messages[5].endswith(f"{request_id}\tthree")
    assert messages[6:8] == ["no newline", f"END RequestId: {request_id}"]
    assert messages[8].startswith(f"REPORT RequestId: {request_id}\tDuration: ")
    assert "Init Duration" in messages[8]


def test_the_environment_is_lambdas(lab: LambdaLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_CLOUD", "leak")
    lab.create(
        "env",
        "import os\ndef handler(e, c):\n    return {**os.environ, 'cwd': os.getcwd()}\n",
        Environment={"Variables": {"MINE": "1"}},
    )
    environment = invoke(lab, "env")["Payload"]
    assert environment["MINE"] == "1"
    assert environment["AWS_REGION"] == "us-east-1"
    assert environment["AWS_LAMBDA_FUNCTION_NAME"] == "env"
    assert environment["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] == "128"
    assert environment["_HANDLER"] == "app.handler"
    assert environment["AWS_ENDPOINT_URL"] == lab.endpoint_url
    assert environment["LAMBDA_TASK_ROOT"] == environment["cwd"]
    assert "SECRET_OF_THE_CLOUD" not in environment


def test_layers_are_importable(lab: LambdaLab) -> None:
    layer = lab.client().publish_layer_version(
        LayerName="shared", Content={"ZipFile": zipped({"python/shared.py": "COLOUR = 'red'\n"})}
    )
    source = "import shared\ndef handler(e, c):\n    return shared.COLOUR\n"
    lab.create("layered", source, Layers=[layer["LayerVersionArn"]])
    lab.client().delete_layer_version(LayerName="shared", VersionNumber=1)
    assert invoke(lab, "layered")["Payload"] == "red"


def test_reserved_concurrency_throttles(lab: LambdaLab) -> None:
    lab.create("reserved", ECHO)
    lab.client().put_function_concurrency(FunctionName="reserved", ReservedConcurrentExecutions=0)
    with pytest.raises(ClientError) as caught:
        invoke(lab, "reserved")
    assert caught.value.response["Error"]["Code"] == "TooManyRequestsException"
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 429
    lab.client().delete_function_concurrency(FunctionName="reserved")
    assert invoke(lab, "reserved")["StatusCode"] == 200
    assert lab.metrics.metrics[0].name == "Throttles"


def test_an_event_runs_later_and_lasts_over_a_restart(lab: LambdaLab) -> None:
    source = (
        "import pathlib\ndef handler(event, context):\n"
        "    if not pathlib.Path(event, 'open').exists(): raise RuntimeError('closed')\n"
        "    pathlib.Path(event, 'done').touch()\n"
    )
    place = lab.place / "place"
    place.mkdir()
    lab.create("later", source)
    assert invoke(lab, "later", str(place), InvocationType="Event")["StatusCode"] == 202
    wait_until(lambda: any("closed" in line for line in lab.logs.messages()), what="the first try")
    (place / "open").touch()
    lab.restart()  # what waits for its retry is tried again at once
    wait_until((place / "done").exists, what="the second try")
    wait_until(lambda: not lab.database.documents("lambda_async").items(), what="the empty queue")


def test_a_failed_event_goes_to_its_destination(lab: LambdaLab) -> None:
    lab.create("fails", "def handler(e, c):\n    raise ValueError('bad')\n")
    queue = "arn:aws:sqs:us-east-1:000000000000:failed"
    lab.client().put_function_event_invoke_config(
        FunctionName="fails",
        MaximumRetryAttempts=0,
        DestinationConfig={"OnFailure": {"Destination": queue}},
    )
    invoke(lab, "fails", {"a": 1}, InvocationType="Event")
    (message,) = wait_until(lambda: lab.box.messages[queue], what="the message")
    document = json.loads(message)
    assert document["requestContext"]["condition"] == "RetriesExhausted"
    assert document["requestContext"]["approximateInvokeCount"] == 1
    assert document["requestPayload"] == {"a": 1}
    assert document["responsePayload"]["errorMessage"] == "bad"
    assert document["responseContext"]["functionError"] == "Unhandled"


def test_the_port_invokes_by_name_and_arn(shared_lab: LambdaLab, echo: str) -> None:
    invoker = shared_lab.lambda_.invoker
    arn = "arn:aws:lambda:us-east-1:000000000000:function:echo"
    assert json.loads(invoker.invoke(arn, b'{"a":1}').payload)["event"] == {"a": 1}
    with pytest.raises(FunctionNotFound):
        invoker.invoke(f"{arn}-missing", b"{}")


def test_stopping_ends_every_process(lab: LambdaLab) -> None:
    lab.create("ends", WHO)
    name = invoke(lab, "ends")["Payload"]
    assert is_running(name)
    lab.stop()
    assert not is_running(name)
    lab.start()


def test_a_bootstrap_is_run(lab: LambdaLab) -> None:
    source = (
        "#!/bin/sh\n"
        "exec python3 - <<'END'\n"
        "import os, http.client\n"
        "while True:\n"
        "    c = http.client.HTTPConnection(os.environ['AWS_LAMBDA_RUNTIME_API'])\n"
        "    c.request('GET', '/2018-06-01/runtime/invocation/next')\n"
        "    r = c.getresponse(); body = r.read(); i = r.headers['Lambda-Runtime-Aws-Request-Id']\n"
        "    c.close()\n"
        "    c = http.client.HTTPConnection(os.environ['AWS_LAMBDA_RUNTIME_API'])\n"
        "    c.request('POST', f'/2018-06-01/runtime/invocation/{i}/response', iter([body, b' ']))\n"
        "    c.getresponse().read(); c.close()\n"
        "END\n"
    )
    import zipfile as z

    package = lab.data_dir / "bootstrap.zip"
    with z.ZipFile(package, "w") as archive:
        info = z.ZipInfo("bootstrap")
        info.external_attr = 0o100755 << 16
        archive.writestr(info, source)
    lab.create("own", "", Runtime="provided.al2023", Code={"ZipFile": package.read_bytes()})
    assert invoke(lab, "own", {"a": 1})["Payload"] == {"a": 1}
    assert invoke(lab, "own", {"a": 2})["Payload"] == {"a": 2}


def test_a_missing_bootstrap_says_so(lab: LambdaLab) -> None:
    lab.create("none", "", Runtime="provided.al2023")
    answer = invoke(lab, "none")
    assert answer["Payload"]["errorType"] == "Runtime.InvalidEntrypoint"
    assert "bootstrap" in answer["Payload"]["errorMessage"]


def test_a_bootstrap_that_may_not_be_run_says_so(lab: LambdaLab) -> None:
    code = {"ZipFile": zipped({"bootstrap": "#!/bin/sh\n"})}
    lab.create("locked", "", Runtime="provided.al2023", Code=code)
    answer = invoke(lab, "locked")
    assert answer["Payload"]["errorType"] == "Runtime.InvalidEntrypoint"
    assert answer["Payload"]["errorMessage"].endswith("bootstrap: permission denied")


def test_a_missing_node_says_what_to_install(
    lab: LambdaLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    lab.create("js", "", Runtime="nodejs22.x", Code={"ZipFile": zipped({"app.js": ""})})
    assert "needs Node.js 20 or newer" in invoke(lab, "js")["Payload"]["errorMessage"]


node = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")


@node
@pytest.mark.parametrize(
    ("file", "source"),
    [
        (
            "app.js",
            "exports.handler = async (event, context) => ({ event, id: context.awsRequestId });",
        ),
        (
            "app.js",
            "exports.handler = (event, context, done) => done(null, { event, id: context.awsRequestId });",
        ),
        (
            "app.mjs",
            "export const handler = async (event, context) => ({ event, id: context.awsRequestId });",
        ),
        (
            "app.js",
            "export const handler = async (event, context) => ({ event, id: context.awsRequestId });",
        ),
    ],
)
def test_node_handlers_of_every_kind_run(lab: LambdaLab, file: str, source: str) -> None:
    files = {file: source}
    if file == "app.js" and source.startswith("export "):
        files["package.json"] = '{"type":"module"}'
    lab.create("js", "", Runtime="nodejs22.x", Code={"ZipFile": zipped(files)})
    for number in range(2):
        answer = invoke(lab, "js", {"n": number})
        assert answer["Payload"] == {
            "event": {"n": number},
            "id": answer["ResponseMetadata"]["RequestId"],
        }


@node
@pytest.mark.parametrize(
    ("source", "error_type"),
    [
        ("exports.handler = async () => { throw new RangeError('far'); };", "RangeError"),
        ("exports.handler = (e, c, done) => done(new TypeError('odd'));", "TypeError"),
        (
            "exports.handler = () => { setTimeout(() => { throw new EvalError('late'); }, 1); };",
            "EvalError",
        ),
        ("exports.other = 1;", "Runtime.HandlerNotFound"),
        ("require('not-there');", "Runtime.ImportModuleError"),
        ("const = ;", "Runtime.UserCodeSyntaxError"),
        ("import 'node:fs';\nexport const handler = () => 1;", "Runtime.UserCodeSyntaxError"),
        ("import 'not-there';\nexport const handler = () => 1;", "Runtime.UserCodeSyntaxError"),
    ],
)
def test_node_errors_are_function_errors(lab: LambdaLab, source: str, error_type: str) -> None:
    lab.create("js", "", Runtime="nodejs22.x", Code={"ZipFile": zipped({"app.js": source})})
    answer = invoke(lab, "js")
    assert answer["FunctionError"] == "Unhandled"
    assert answer["Payload"]["errorType"] == error_type
