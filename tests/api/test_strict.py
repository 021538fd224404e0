"""`headrace up --strict` refuses calls that give what would be ignored, and names it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest
from headrace.aws.protocols.owned_service import Strictness
from headrace.aws.protocols.service import ServiceApi
from tests.support.cloud import InProcessCloud
from tests.support.emr import cluster_request
from tests.support.strict_calls import ignored_of, not_refused


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("strict") / "data", strict=True) as cloud:
        yield cloud


def refused(call: Any, **params: Any) -> tuple[str, int, str]:
    with pytest.raises(ClientError) as raised:
        call(**params)
    answer: Any = raised.value.response
    error = answer["Error"]
    return error["Code"], answer["ResponseMetadata"]["HTTPStatusCode"], error["Message"]


def test_json_services_name_the_parameter(strict: InProcessCloud):
    code, status, sentence = refused(
        strict.client("emr").run_job_flow, **cluster_request(AdditionalInfo="{}")
    )
    assert (code, status) == ("ValidationException", 400)
    assert sentence == (
        "headrace --strict refuses parameters of RunJobFlow that it would ignore: AdditionalInfo"
    )


def test_objects_are_refused_by_their_headers(strict: InProcessCloud):
    s3 = strict.client("s3")
    s3.create_bucket(Bucket="bucket-one")
    for call in (s3.get_object, s3.head_object, s3.put_object, s3.delete_object):
        assert refused(call, Bucket="bucket-one", Key="k", RequestPayer="requester")[1] == 501
    code, _, sentence = refused(
        s3.put_object, Bucket="bucket-one", Key="k", RequestPayer="requester"
    )
    assert code == "NotImplemented"
    assert sentence.endswith("PutObject that it would ignore: RequestPayer")
    s3.put_object(Bucket="bucket-one", Key="k")


def test_lambda_is_refused_by_its_head(strict: InProcessCloud):
    code, _, sentence = refused(strict.client("lambda").invoke, FunctionName="f", TenantId="t")
    assert code == "ValidationException"
    assert sentence.endswith("Invoke that it would ignore: TenantId")


def test_what_asks_for_nothing_is_let_through():
    strictness = Strictness(
        "s3", {"A": {"B.C": "ignored", "D": "stored", "ClientToken": "ignored"}}
    )
    for params in ({"B": {"C": False}}, {"B": [{"C": []}, {}]}, {"D": 1}, {"ClientToken": "t"}):
        strictness.check("A", params)
    for params in ({"B": {"C": 1}}, {"B": [{}, {"C": "x"}]}):
        with pytest.raises(AwsError, match=r"B\.C"):
            strictness.check("A", params)


def _ignored(api: ServiceApi) -> Iterator[tuple[str, str]]:
    for operation, levels in api.fidelity.items():
        yield from ((operation, path) for path, level in levels.items() if level == "ignored")


def test_every_parameter_that_is_ignored_is_refused(strict: InProcessCloud):
    let_through = [
        f"{api.name}:{operation}.{path}"
        for api in strict.cloud.gateway.owned.values()
        for operation, path in _ignored(api)
        if not _is_refused(Strictness(api.name, api.fidelity), operation, path)
    ]
    assert [name for name in let_through if not name.endswith("Token")] == []


def _is_refused(strictness: Strictness, operation: str, path: str) -> bool:
    params: Any = "given"
    for name in reversed(path.split(".")):
        params = {name.removesuffix("[]"): params}
    try:
        strictness.check(operation, params)
    except AwsError as error:
        return path in error.message
    return False


# --- real calls, made from the model ------------------------------------------------------------

SAMPLE = 40


def test_a_call_with_what_would_be_ignored_is_refused(strict: InProcessCloud):
    rows = ignored_of(strict)
    one_each = {row[0]: row for row in rows}
    wrong = not_refused(strict, [*one_each.values(), *Random(7).sample(rows, SAMPLE)])
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_every_call_with_what_would_be_ignored_is_refused(strict: InProcessCloud):
    rows = ignored_of(strict)
    assert len(rows) > 100
    wrong = not_refused(strict, rows)
    assert not wrong, "\n".join(wrong)


def test_the_report_has_what_would_be_refused(strict: InProcessCloud):
    page = json.loads(strict.handle(HttpRequest("GET", "/_headrace/fidelity", "", {}, b"")).body)
    told = {
        (row["service"], row["operation"], row["property"])
        for row in page
        if row["level"] == "ignored" and not row["stack"]
    }
    assert [row for row in ignored_of(strict) if row not in told] == []
