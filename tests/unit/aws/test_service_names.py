"""Which service a request is for, and whether it never blocks, is found once and by what services declare."""

from __future__ import annotations

from headrace.aws.calls.http import HttpRequest
from headrace.aws.gateway.faults import Faults
from headrace.aws.gateway.inline_requests import InlineRequests
from headrace.aws.protocols.service import Profile, ServiceApi
from headrace.aws.signatures.credential_scopes import ServiceNames
from headrace.core.ids import Ids
from headrace.services.kinesis.api import PROFILE


def asked(**headers: str) -> HttpRequest:
    return HttpRequest("POST", "/", headers={n.replace("_", "-"): v for n, v in headers.items()})


def test_the_service_is_found_once_and_kept_with_who_signed() -> None:
    names = ServiceNames()
    names.add("kinesis", PROFILE)
    credential = (
        "AWS4-HMAC-SHA256 Credential=k/20260101/eu-west-1/kinesis/aws4_request, Signature=a"
    )
    request = asked(authorization=credential)
    assert names.service_of(request) == "kinesis"
    assert request.scope is not None
    assert (request.scope.access_key, request.scope.region) == ("k", "eu-west-1")
    request.headers.clear()
    assert names.service_of(request) == "kinesis"


def test_s3_control_is_told_from_s3_by_its_header_and_path() -> None:
    scope = "AWS4-HMAC-SHA256 Credential=k/20260101/eu-west-1/s3/aws4_request, Signature=a"
    header = {"x-amz-account-id": "000000000000"}

    def service(path: str, headers: dict[str, str]) -> str:
        request = HttpRequest("GET", path, headers={"authorization": scope, **headers})
        return ServiceNames().service_of(request)

    assert service("/v20180820/accesspoint", header) == "s3control"
    assert service("/v20180820/accesspoint", {}) == "s3"
    assert service("/bucket/v20180820/accesspoint", header) == "s3"


def test_a_link_in_a_message_finds_its_service_without_a_version() -> None:
    names = ServiceNames()
    names.add("sns", Profile(query_version="2010-03-31", bare_queries=("Action=Unsubscribe&",)))
    names.add("s3", Profile(takes_the_rest=True))

    def service(query: str) -> str:
        return names.service_of(HttpRequest("GET", "/", query))

    assert service("Action=Unsubscribe&SubscriptionArn=a") == "sns"
    assert service("Action=Publish&Version=2010-03-31") == "sns"
    assert service("Action=Publish") == "s3"


def test_without_a_service_that_never_blocks_no_request_is_inline() -> None:
    requests = InlineRequests(Faults(Ids()), None, lambda _: False, ServiceNames().service_of)
    assert not requests.has(asked(x_amz_target="Kinesis_20131202.PutRecord"))
    assert not requests.has(asked())


def test_a_request_that_may_be_answered_quickly_is_inline_unless_a_fault_may_concern_it() -> None:
    faults = Faults(Ids())
    requests = InlineRequests(faults, None, lambda _: True, ServiceNames().service_of)
    assert requests.has(asked())
    # A rule would count the request again on its thread.
    faults.add({"fault": "error", "service": "kinesis", "error_code": "InternalFailure"})
    assert not requests.has(asked())


def test_a_request_that_is_signed_for_another_service_is_not_inline() -> None:
    names = ServiceNames()
    requests = InlineRequests(Faults(Ids()), None, lambda _: False, names.service_of)

    def quick(name: str, profile: Profile, *inline: str) -> None:
        names.add(name, profile)
        requests.add(
            ServiceApi(
                name,
                None,
                [],
                lambda _: None,
                profile=profile,
                inline=frozenset(inline),
                may_be_quick=lambda request: request.path == "/functions",
            )
        )

    quick("kinesis", PROFILE, "PutRecord")
    quick("lambda", Profile(signing_scopes=("lambda",), paths=("/functions",)))
    target = {"x_amz_target": "Kinesis_20131202.PutRecord"}
    assert requests.has(asked(**target))
    assert requests.has(HttpRequest("POST", "/functions"))
    s3 = "AWS4-HMAC-SHA256 Credential=k/20260101/eu-west-1/s3/aws4_request, SignedHeaders=host, Signature=a"
    assert not requests.has(asked(authorization=s3, **target))
    assert not requests.has(HttpRequest("POST", "/functions", headers={"authorization": s3}))
