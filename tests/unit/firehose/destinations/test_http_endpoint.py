"""An HTTP endpoint: AWS's request to the letter, and every answer that is not the one it wants.

Source of the contract: docs.aws.amazon.com/firehose/latest/dev/httpdeliveryrequestresponse.html (documented).
"""

from __future__ import annotations

import base64
import json
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.services.firehose.destinations.common import DeliveryRefusal, compute_backoff_s
from headrace.services.firehose.destinations.exchange import Stopped
from headrace.services.firehose.destinations.http import HttpEndpoint, cut
from tests.support.endpoint import Behaviour, Endpoint, Request, answer, endpoint, json_answer
from tests.support.tls import make_certificate

ARN = "arn:aws:firehose:us-east-1:123456789012:deliverystream/d"
REQUEST_ID = "ed4acda5-034f-9f42-bba1-f29aea6d7d8f"
NOW_MS = 1_578_090_901_599
DATAS = [b"hello", b""]
INVALID = (
    "The response received from the specified endpoint is invalid. Contact the owner of the endpoint to resolve the"
    " issue."
)


def sound(request: Request) -> bytes:
    return json_answer(200, {"requestId": request.json["requestId"], "timestamp": NOW_MS})


@pytest.fixture
def server() -> Iterator[Endpoint]:
    with endpoint(sound) as running:
        yield running


def client(
    url: str,
    *,
    key: str = "",
    within_s: float = 10,
    stopping: threading.Event | None = None,
    **request: Any,
) -> HttpEndpoint:
    return HttpEndpoint(
        {"EndpointConfiguration": {"Url": url}, "RequestConfiguration": request},
        stream_arn=ARN,
        access_key=key,
        stopping=stopping or threading.Event(),
        within_s=within_s,
    )


def deliver(to: HttpEndpoint, datas: list[bytes] = DATAS) -> DeliveryRefusal | None:
    return to.post(datas, REQUEST_ID, NOW_MS)


def failed(to: HttpEndpoint, datas: list[bytes] = DATAS) -> DeliveryRefusal:
    found = deliver(to, datas)
    assert found is not None
    return found


def refused(server: Endpoint, behave: Behaviour, **options: Any) -> DeliveryRefusal:
    server.behaviours.append(behave)
    return failed(client(server.url, **options))


# --- the request ------------------------------------------------------------------------------


def test_the_request_is_awss(server: Endpoint):
    attributes = [
        {"AttributeName": "deployment -context", "AttributeValue": "pre-prod-gamma"},
        {"AttributeName": "device-types", "AttributeValue": ""},
    ]
    to = client(f"{server.url}/in?a=b%20c", key='{"user": "me"}', CommonAttributes=attributes)
    assert deliver(to) is None
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/in?a=b%20c")
    assert request.json == {
        "requestId": REQUEST_ID,
        "timestamp": NOW_MS,
        "records": [{"data": "aGVsbG8="}, {"data": ""}],
    }
    amazon = {name: value for name, value in request.headers.items() if name.startswith("x-amz")}
    common = json.loads(amazon.pop("x-amz-firehose-common-attributes"))
    assert common == {
        "commonAttributes": {"deployment -context": "pre-prod-gamma", "device-types": ""}
    }
    assert amazon == {
        "x-amz-firehose-protocol-version": "1.0",
        "x-amz-firehose-request-id": REQUEST_ID,
        "x-amz-firehose-source-arn": ARN,
        "x-amz-firehose-access-key": '{"user": "me"}',
    }
    assert request.headers["content-type"] == "application/json"
    assert "content-encoding" not in request.headers


def test_what_is_not_configured_is_not_sent(server: Endpoint):
    deliver(client(server.url))
    assert "x-amz-firehose-access-key" not in server.requests[0].headers
    assert "x-amz-firehose-common-attributes" not in server.requests[0].headers


def test_gzip_packs_the_body_and_says_so(server: Endpoint):
    items = [b"x" * 1000] * 100
    assert deliver(client(server.url, ContentEncoding="GZIP"), items) is None
    (request,) = server.requests
    assert request.headers["content-encoding"] == "gzip"
    assert len(request.body) < 10_000
    assert len(request.json["records"]) == 100


def test_a_line_break_in_a_key_adds_no_header(server: Endpoint):
    deliver(client(server.url, key="a\r\nX-Evil: 1"))
    assert "x-evil" not in server.requests[0].headers


def test_a_batch_has_ten_thousand_records_and_64_mib_at_most():
    assert cut([]) == []
    assert cut([0] * 20_001) == [range(10_000), range(10_000, 20_000), range(20_000, 20_001)]
    batches = cut([1_024_000] * 100)
    assert [index for batch in batches for index in batch] == list(range(100))
    size_bytes = len(base64.b64encode(bytes(1_024_000))) + len('{"data":""},')
    assert max(map(len, batches)) * size_bytes < 64 * 1024 * 1024
    assert len(batches) == 3


def test_a_body_of_many_mebibytes_arrives_whole(server: Endpoint):
    items = [bytes(1_024_000)] * 20
    assert deliver(client(server.url), items) is None
    assert len(server.requests[0].json["records"]) == 20


# --- answers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 401, 403, 429, 500, 503, 201, 204, 301, 302])
def test_any_status_but_200_is_refused_and_tried_again(server: Endpoint, status: int):
    said = {"requestId": REQUEST_ID, "timestamp": 1, "errorMessage": "No."}
    found = refused(server, lambda _: json_answer(status, said if status != 204 else ""))
    assert found.code == "HttpEndpoint.DestinationException"
    assert found.is_retryable
    assert not found.is_dropped
    assert len(server.requests) == 1  # a redirect is not followed
    if status != 204:
        assert found.message.endswith(
            f"Response received with status code. {status}: {json.dumps(said)}"
        )


def test_413_is_not_tried_again_and_goes_to_no_error_output(server: Endpoint):
    found = refused(server, lambda _: answer(413, "Payload too large"))
    assert found.code == "HttpEndpoint.DestinationException"
    assert not found.is_retryable
    assert found.is_dropped


def test_413_before_the_whole_body_is_read_is_seen(server: Endpoint):
    def refuse_early(request: Request) -> bytes:
        return answer(413, "Payload too large")

    items = [bytes(1_024_000)] * 8
    server.behaviours.append(refuse_early)
    found = failed(client(server.url), items)
    assert found.is_dropped


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("", "is not recognized as valid JSON or has unexpected fields"),
        ("ok", "is not recognized as valid JSON or has unexpected fields"),
        ("[]", "is not recognized as valid JSON or has unexpected fields"),
        ("[" * 100_000, "is not recognized as valid JSON or has unexpected fields"),
        ('{"requestId": null}', "is not recognized as valid JSON or has unexpected fields"),
        ('{"timestamp": 1}', "does not contain a requestId"),
        ('{"requestId": "x", "timestamp": 1}', "has a requestId that does not match the request's"),
        (f'{{"requestId": "{REQUEST_ID}"}}', "does not contain a timestamp"),
        (
            f'{{"requestId": "{REQUEST_ID}", "timestamp": "1"}}',
            "is not recognized as valid JSON or has unexpected fields",
        ),
        (
            f'{{"requestId": "{REQUEST_ID}", "timestamp": 1, "status": "ok"}}',
            "is not recognized as valid JSON or has unexpected fields",
        ),
    ],
)
def test_200_with_another_body_is_a_failure(server: Endpoint, body: str, fault: str):
    found = refused(server, lambda _: answer(200, body, Content_Type="application/json"))
    assert found.code == "HttpEndpoint.InvalidResponseFromDestination"
    assert found.is_retryable
    assert found.message == (
        f"{INVALID} Response for request {REQUEST_ID} {fault}. Raw response received: 200 {body[:8192]}"
    )


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Content_Type": "text/plain"},
        {"Content_Type": "application/json", "Content_Encoding": "gzip"},
    ],
)
def test_200_with_other_headers_is_a_failure(server: Endpoint, headers: dict[str, str]):
    body = json.dumps({"requestId": REQUEST_ID, "timestamp": 1})
    found = refused(server, lambda _: answer(200, body, **headers))
    assert found.code == "HttpEndpoint.InvalidResponseFromDestination"


def test_a_content_type_with_a_character_set_is_taken(server: Endpoint):
    body = json.dumps({"requestId": REQUEST_ID, "timestamp": 1})
    server.behaviours.append(
        lambda _: answer(200, body, Content_Type="application/json; charset=utf-8")
    )
    assert deliver(client(server.url)) is None


def test_an_answer_of_more_than_a_mebibyte_is_too_large(server: Endpoint):
    found = refused(server, lambda _: answer(200, b"x" * (2 << 20)))
    assert found.code == "HttpEndpoint.ResponseTooLarge"


def test_a_head_without_end_is_too_large(server: Endpoint):
    def endless(request: Request) -> None:
        request.connection.sendall(b"HTTP/1.1 200 OK\r\n")
        while True:
            request.connection.sendall(b"a: " + b"x" * 8000 + b"\r\n")

    found = refused(server, endless)
    assert found.code in (
        "HttpEndpoint.ResponseTooLarge",
        "HttpEndpoint.InvalidResponseFromDestination",
    )


# --- connections ------------------------------------------------------------------------------


def test_nobody_listens():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    found = failed(client(f"http://127.0.0.1:{port}/"))
    assert (found.code, found.is_retryable) == ("HttpEndpoint.ConnectionFailed", True)


def test_a_name_that_nobody_has():
    found = failed(client("http://nobody.invalid/"))
    assert found.code == "HttpEndpoint.ConnectionFailed"


def test_a_certificate_of_ones_own_is_trusted_when_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path, tls = make_certificate(tmp_path)
    with endpoint(sound, tls) as server:
        found = failed(client(server.url))
        assert (found.code, found.is_retryable) == ("HttpEndpoint.SSLHandshakeFailure", True)
        monkeypatch.setenv("SSL_CERT_FILE", str(path))
        assert deliver(client(server.url)) is None
        assert len(server.requests) == 1


def test_no_tls_behind_https():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer_plainly() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(answer(400, "speak plainly"))

        thread = threading.Thread(target=answer_plainly)
        thread.start()
        found = failed(client(f"https://127.0.0.1:{listener.getsockname()[1]}"))
        thread.join(10)
    assert found.code == "HttpEndpoint.SSLHandshakeFailure"


def test_a_connection_that_is_reset(server: Endpoint):
    def reset(request: Request) -> None:
        request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.connection.close()

    assert refused(server, reset).code == "HttpEndpoint.ConnectionReset"


@pytest.mark.parametrize("cut", [0, 10, 40, -1])
def test_an_answer_that_is_cut_short(server: Endpoint, cut: int):
    whole = json_answer(200, {"requestId": REQUEST_ID, "timestamp": 1})
    found = refused(server, lambda _: whole[:cut])
    assert found.code == "HttpEndpoint.ConnectionReset"


def test_an_answer_that_is_no_http(server: Endpoint):
    found = refused(server, lambda _: b"SSH-2.0-OpenSSH_9.2\r\n")
    assert found.code == "HttpEndpoint.InvalidResponseFromDestination"


def test_an_endpoint_that_hangs_is_given_up_in_time(server: Endpoint):
    began_s = time.monotonic()
    assert refused(server, server.hang, within_s=0.4).code == "HttpEndpoint.RequestTimeout"
    assert time.monotonic() - began_s < 5


def test_an_endpoint_that_drips_is_given_up_in_time(server: Endpoint):
    def drip(request: Request) -> None:
        while not server.released.wait(0.05):
            request.connection.sendall(b"H")

    began_s = time.monotonic()
    found = refused(server, drip, within_s=0.4)
    assert found.code in (
        "HttpEndpoint.RequestTimeout",
        "HttpEndpoint.InvalidResponseFromDestination",
    )

    def drip_body(request: Request) -> None:
        request.connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        drip(request)

    assert refused(server, drip_body, within_s=0.4).code == "HttpEndpoint.RequestTimeout"
    assert time.monotonic() - began_s < 5


def test_a_cloud_that_stops_waits_for_no_answer(server: Endpoint):
    stopping = threading.Event()
    server.behaviours.append(lambda request: (stopping.set(), server.hang(request))[1])
    with pytest.raises(Stopped):
        deliver(client(server.url, stopping=stopping))


@pytest.mark.parametrize("seed", range(8))
def test_noise_is_a_failure_and_never_more(server: Endpoint, seed: int):
    """Seeded bytes, and sound answers with a byte changed: only a sound answer counts as delivered."""
    source = random.Random(seed)
    whole = json_answer(200, {"requestId": REQUEST_ID, "timestamp": 1})
    for _ in range(10):
        noise = bytearray(whole)
        if source.random() < 0.3:
            noise = bytearray(source.randbytes(source.randrange(200)))
        else:
            start = whole.index(REQUEST_ID.encode())
            noise[start + source.randrange(len(REQUEST_ID))] ^= 1 + source.randrange(127)
        server.behaviours.append(lambda _, noise=bytes(noise): noise)
        found = failed(client(server.url, within_s=5))
        assert found.code.startswith("HttpEndpoint.")


# --- retries ----------------------------------------------------------------------------------


def test_the_back_off_doubles_from_a_second_to_two_minutes():
    for retry in range(1, 40):
        middle_s = min(120.0, 2.0 ** (retry - 1))
        waits_s = [compute_backoff_s(retry, place / 10) for place in range(11)]
        assert waits_s == sorted(waits_s)
        assert waits_s[0] == pytest.approx(0.85 * middle_s)
        assert waits_s[-1] == pytest.approx(1.15 * middle_s)
