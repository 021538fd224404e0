"""Requests as clients send them; and those for a table's items, drawn at random: plain ones, and ones to refuse."""

from __future__ import annotations

import itertools
import json
from typing import Any
from urllib.parse import urlencode

from hypothesis import strategies as st

from headrace.aws.calls.http import HttpRequest, HttpResponse
from tests.support.moto_lab import MotoLab

TARGETS = {
    "dynamodb": "DynamoDB_20120810",
    "sqs": "AmazonSQS",
    "events": "AWSEvents",
    "logs": "Logs_20140328",
    "states": "AWSStepFunctions",
}
# Text from which moto may take a region: such a request is not plain.
MOTOS_WAY = "sdk region/us-east-1"


def request_of(service: str, operation: str, params: Any, agent: str = "sdk") -> HttpRequest:
    scope = f"test/20260101/us-east-1/{service}/aws4_request"
    headers = {
        "host": "127.0.0.1:4566",
        "user-agent": agent,
        "x-amz-target": f"{TARGETS.get(service)}.{operation}",
        "content-type": "application/x-amz-json-1.0",
        "authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0",
    }
    return HttpRequest("POST", "/", "", headers, json.dumps(params).encode())


def form_request(service: str, fields: Any, agent: str = "sdk") -> HttpRequest:
    request = request_of(service, "", {}, agent)
    request.headers["content-type"] = "application/x-www-form-urlencoded; charset=utf-8"
    del request.headers["x-amz-target"]
    request.body = urlencode(fields).encode()
    return request


def answer_at_once(lab: MotoLab, request: HttpRequest) -> HttpResponse:
    """Answer as on the event loop. Raises NeedsThread."""
    request.at_once = True
    return lab.handle(request)


COUNT = itertools.count()
TEXTS = st.sampled_from(["", "a", "b", "ü\u2028", "x" * 300])
NUMBERS = st.sampled_from(["0", "1", "1.0", "-0", "1e3", "007", "x", "", " 1", "9" * 39, "0.10"])
PLAIN: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(["a", "b", "ü"]).map(lambda text: {"S": text}),
    st.sampled_from(["0", "1", "1.0", "-2.50"]).map(lambda number: {"N": number}),
    st.booleans().map(lambda truth: {"BOOL": truth}),
)
ODD: st.SearchStrategy[Any] = st.one_of(
    TEXTS.map(lambda text: {"S": text}),
    NUMBERS.map(lambda number: {"N": number}),
    st.sampled_from(
        [
            *({"NULL": True}, {"NULL": False}, {"B": "aGk="}, {"SS": ["a"]}, {"SS": []}, {}),
            *(
                {"NS": ["1", "2"]},
                {"S": 1},
                {"N": 1},
                {"S": "a", "N": "1"},
                {"X": "a"},
                {"BOOL": 1},
            ),
        ]
    ),
)
VALUES = st.recursive(
    PLAIN | PLAIN | ODD,
    lambda inner: (
        st.lists(inner, max_size=2).map(lambda items: {"L": items})
        | st.dictionaries(st.sampled_from(["a", "b", ""]), inner, max_size=2).map(
            lambda parts: {"M": parts}
        )
    ),
    max_leaves=4,
)
HASHES = st.sampled_from([{"S": "a"}, {"S": "a"}, {"S": "b"}, {"S": "ü"}]) | ODD
RANGES = st.sampled_from([{"N": "1"}, {"N": "1.0"}, {"N": "2"}, {"N": "-1"}]) | ODD
KEYS = st.one_of(
    st.fixed_dictionaries({"h": HASHES, "r": RANGES}),
    st.fixed_dictionaries({"h": st.just({"S": "a"}), "r": st.just({"N": "1"})}),
    st.dictionaries(st.sampled_from(["h", "r", "c"]), PLAIN | ODD, max_size=3),
)
MORE = st.sampled_from([{}, {}, {}, {"ReturnConsumedCapacity": "NONE"}, {"ReturnValues": "NONE"},
    {"ReturnValues": "ALL_OLD"}, {"ReturnConsumedCapacity": "TOTAL"}, {"Unknown": 1},
    {"ConditionExpression": "attribute_not_exists(h)"}, {"ReturnValues": None}])  # fmt: skip
ATTRIBUTES = st.dictionaries(st.sampled_from(["c", "n", "size", "g", ""]), VALUES, max_size=3)
UPDATES = st.sampled_from(
    [
        *("SET c = :v", "SET #n = :v", "SET c = :v, #n = :w", "SET c = :v,n=:w", "set c = :v"),
        *("SET size = :v", "SET h = :v", "SET g = :v", "SET c = c + :v", "REMOVE c", "SET c = :v REMOVE n", ""),
        *("SET #n = :v, #m = :w", " SET c = :v ", "SET c.d = :v", "SET #p = :v", "SET c = :v, c = :w"),
    ]
)  # fmt: skip
CONDITIONS = st.sampled_from(
    [
        *(None, None, "c = :v", "#n = :w", "attribute_exists(h)", "attribute_exists(#n) AND c = :v"),
        *("attribute_not_exists(c)", "c = :v OR n = :w", "", "size = :v", "attribute_exists(missing)"),
    ]
)  # fmt: skip
NAMES = st.sampled_from(
    [
        *(None, None, {"#n": "n"}, {"#n": "n", "#m": "c"}, {}, {"#n": "n", "#x": "n"}),
        *({"#p": "c.d"}, {"#n": "h"}, {"#n": ""}),
    ]
)  # fmt: skip


def _expressions(**parts: Any) -> dict[str, Any]:
    return {name: part for name, part in parts.items() if part is not None}


PUTS = st.builds(
    lambda key, rest, more: ("PutItem", {"Item": {**rest, **key}, **more}), KEYS, ATTRIBUTES, MORE
)
GETS = st.builds(
    lambda key, more: ("GetItem", {"Key": key, **more}),
    KEYS,
    MORE | st.just({"ConsistentRead": True}) | st.just({"ProjectionExpression": "c"}),
)
DELETES = st.builds(lambda key, more: ("DeleteItem", {"Key": key, **more}), KEYS, MORE)
CHANGES = st.builds(
    lambda key, update, condition, names, values, more: (
        "UpdateItem",
        {
            "Key": key,
            **_expressions(
                UpdateExpression=update,
                ConditionExpression=condition,
                ExpressionAttributeNames=names,
                ExpressionAttributeValues=values,
            ),
            **more,
        },
    ),
    KEYS,
    UPDATES,
    CONDITIONS,
    NAMES,
    st.dictionaries(st.sampled_from([":v", ":w"]), VALUES, max_size=2) | st.none(),
    MORE,
)
LEGACY = st.builds(
    lambda key, updates, expected, more: (
        "UpdateItem",
        {"Key": key, **_expressions(AttributeUpdates=updates, Expected=expected), **more},
    ),
    KEYS,
    st.dictionaries(
        st.sampled_from(["c", "n", "h", "g", ""]),
        st.builds(
            lambda value, action: {"Value": value, "Action": action},
            VALUES,
            st.sampled_from(["PUT", "PUT", "PUT", "ADD", "DELETE"]),
        ),
        max_size=2,
    ),
    st.dictionaries(
        st.sampled_from(["c", "h", "missing"]),
        VALUES.map(lambda value: {"Value": value}) | st.just({"Exists": False}),
        max_size=2,
    )
    | st.none(),
    MORE,
)
QUERIES = st.builds(
    lambda condition, names, values, more: (
        "Query",
        {
            **_expressions(
                KeyConditionExpression=condition,
                ExpressionAttributeNames=names,
                ExpressionAttributeValues=values,
            ),
            **more,
        },
    ),
    st.sampled_from(["h = :v", "#n = :v", "h = :v AND r = :w", "r = :w", "h=:v", "c = :v"]),
    NAMES,
    st.fixed_dictionaries({":v": HASHES}, optional={":w": RANGES}) | st.none(),
    st.sampled_from([{}, {}, {"ScanIndexForward": False}, {"Limit": 1}, {"Select": "COUNT"},
        {"IndexName": "by-g"}, {"ConsistentRead": True}]),
)  # fmt: skip
REQUESTS = st.lists(PUTS | PUTS | GETS | CHANGES | CHANGES | LEGACY | DELETES | QUERIES, max_size=8)
