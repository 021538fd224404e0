"""ListStreams."""

from __future__ import annotations

from typing import Any

from tests.api.kinesis.streams import Streams, arn_of, failure


class TestSerialization:
    def test_a_limit_that_is_no_number(self, streams: Streams):
        status, answer = streams.raw("ListStreams", {"Limit": [1]})
        assert (status, answer["__type"]) == (400, "SerializationException")


class TestValidation:
    def test_a_limit_of_nothing(self, kinesis: Any):
        error = failure(kinesis.list_streams, Limit=0)
        assert "Value '0' at 'limit' failed to satisfy constraint" in error.message


class TestBehaviour:
    def test_no_streams(self, kinesis: Any):
        answer = kinesis.list_streams()
        assert (answer["StreamNames"], answer["HasMoreStreams"]) == ([], False)

    def test_pages_in_the_order_of_names(self, streams: Streams, kinesis: Any):
        for name in ("c", "a", "e", "b", "d"):
            streams.create(name)
        first = kinesis.list_streams(Limit=2)
        assert (first["StreamNames"], first["HasMoreStreams"]) == (["a", "b"], True)
        rest = kinesis.list_streams(ExclusiveStartStreamName="b")
        assert (rest["StreamNames"], rest["HasMoreStreams"]) == (["c", "d", "e"], False)
        pages = kinesis.get_paginator("list_streams").paginate(PaginationConfig={"PageSize": 2})
        assert [name for page in pages for name in page["StreamNames"]] == list("abcde")
        assert first["StreamSummaries"][0]["StreamARN"] == arn_of("a")

    def test_a_hundred_at_most(self, streams: Streams, kinesis: Any):
        for number in range(101):
            streams.create(f"s{number:03d}")
        answer = kinesis.list_streams(Limit=200)
        assert (len(answer["StreamNames"]), answer["HasMoreStreams"]) == (100, True)
        rest = kinesis.list_streams(NextToken=answer["NextToken"])
        assert (rest["StreamNames"], rest["HasMoreStreams"]) == (["s100"], False)

    def test_tokens_are_opaque_and_expire(self, streams: Streams, kinesis: Any):
        streams.create("a")
        streams.create("b")
        token = kinesis.list_streams(Limit=1)["NextToken"]
        assert failure(kinesis.list_streams, NextToken="a").code == "InvalidArgumentException"
        error = failure(kinesis.list_streams, NextToken=token, ExclusiveStartStreamName="a")
        assert error.code == "InvalidArgumentException"
        streams.clock.advance(300.001)
        error = failure(kinesis.list_streams, NextToken=token)
        assert error.code == "ExpiredNextTokenException"
