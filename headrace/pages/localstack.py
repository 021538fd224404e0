"""Answers what scripts for LocalStack and for moto's server ask: health, start-up scripts, resets (which it refuses).

LocalStack's answers: https://docs.localstack.cloud/references/internal-endpoints/ (documented). Scripts search its text
for `"sqs": "running"` or `"sqs": "available"`, so it has LocalStack's spaces.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any

from headrace import __version__
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.gateway.documents import MOTO_RESET, json_response, restrain
from headrace.pages.routes import READING, Route

HEALTH_PATH = "/_localstack/health"
INIT_PATH = "/_localstack/init"
# The services of LocalStack's own list, and more of moto's that this cloud answers, by LocalStack's names.
IN_MOTO = (
    "acm", "apigateway", "apigatewayv2", "athena", "cloudwatch", "cognito-idp", "config", "dynamodb",
    "dynamodbstreams", "ec2", "ecr", "es", "events", "glue", "iam", "iot", "kms", "logs", "opensearch", "pipes",
    "redshift", "resource-groups", "route53", "route53resolver", "scheduler", "secretsmanager", "ses", "sns", "sqs",
    "ssm", "stepfunctions", "sts", "support", "swf", "transcribe",
)  # fmt: skip
_NO_RESET = (
    "headrace empties no running cloud. Stop it and run 'headrace reset', start it with a data directory of its own,"
    " or give each test an account of its own (docs/testing.md)."
)


def localstack_routes(
    *,
    services: Callable[[], Collection[str]],
    is_started: Callable[[], bool],
    is_moto_ready: Callable[[], bool],
) -> list[Route]:
    """Return the routes; calls of moto's services wait until they are loaded, as LocalStack's `available` ones do."""

    def health(_: HttpRequest, __: list[str]) -> HttpResponse:
        in_moto = "running" if is_moto_ready() else "available"
        states = {**dict.fromkeys(IN_MOTO, in_moto), **dict.fromkeys(services(), "running")}
        listed = {"services": dict(sorted(states.items())), "edition": "headrace"}
        return _spaced({**listed, "version": __version__})

    def init(_: HttpRequest, rest: list[str]) -> HttpResponse:
        started = is_started()
        stages = {"BOOT": True, "START": True, "READY": started, "SHUTDOWN": False}
        if not rest:
            return _spaced({"completed": stages, "scripts": []})
        stage = rest[0].upper()
        if len(rest) > 1 or stage not in stages:
            return json_response({"message": f"There is no stage {'/'.join(rest)}."}, 404)
        return _spaced({"completed": stages[stage], "scripts": []})

    def refuse_reset(_: HttpRequest, __: list[str]) -> HttpResponse:
        return json_response({"message": _NO_RESET}, 501)

    return [
        Route(HEALTH_PATH, health, READING),
        Route(INIT_PATH, init, READING, below=True),
        Route("/_localstack/state", refuse_reset, below=True),
        Route(MOTO_RESET, refuse_reset),
    ]


def _spaced(value: Any) -> HttpResponse:
    kind = [("Content-Type", "application/json"), ("Cache-Control", "no-store")]
    return restrain(HttpResponse(200, kind, json.dumps(value).encode()))
