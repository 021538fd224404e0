"""Answers of custom resources: the first counts, a late one is taken by nobody, a long one fails the resource."""

from __future__ import annotations

import json

import pytest

from headrace.core.ids import Ids
from headrace.services.cloudformation.signals import TOO_LONG, Responses
from tests.support.clock import FakeClock


@pytest.fixture
def responses() -> Responses:
    return Responses(FakeClock(), Ids(), lambda: "http://localhost")


def test_the_first_of_two_answers_counts(responses: Responses):
    token, _ = responses.expect()
    assert responses.receive(token, b'{"Status": "SUCCESS"}')
    assert responses.receive(token, b'{"Status": "FAILED"}')
    assert responses.wait(token, 1) == {"Status": "SUCCESS"}


def test_a_late_answer_is_taken_by_nobody(responses: Responses):
    token, _ = responses.expect()
    assert responses.wait(token, 3600) is None
    assert not responses.receive(token, b'{"Status": "SUCCESS"}')


def test_an_answer_of_more_than_4096_bytes_is_too_long(responses: Responses):
    token, _ = responses.expect()
    longest = json.dumps({"Status": "SUCCESS", "Data": ""})
    assert responses.receive(token, (longest[:-2] + "x" * (4097 - len(longest)) + '"}').encode())
    assert responses.wait(token, 1) == TOO_LONG


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"null", b"[" * 4000])
def test_what_is_no_json_object_is_no_answer(responses: Responses, body: bytes):
    token, _ = responses.expect()
    assert not responses.receive(token, body)
