"""The API of faults on demand, `/_headrace/faults`."""

from __future__ import annotations

from functools import partial

import msgspec

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.gateway.documents import json_response
from headrace.aws.gateway.faults import FaultRefused, Faults
from headrace.pages.routes import Route

PATH = "/_headrace/faults"


def routes(faults: Faults) -> list[Route]:
    """Return the route to the faults: GET lists them, POST adds one, DELETE removes all, or one by its id."""
    return [Route(PATH, partial(_answer, faults), below=True)]


def _answer(faults: Faults, request: HttpRequest, _: list[str]) -> HttpResponse:
    rule_id = request.decoded_path.removeprefix(PATH).removeprefix("/")
    if request.method == "GET" and not rule_id:
        return json_response({"faults": [rule.to_json() for rule in faults.rules]})
    if request.method == "POST" and not rule_id:
        return _add(faults, request)
    if request.method == "DELETE":
        if not rule_id:
            return json_response({"removed": faults.clear()})
        if faults.remove(rule_id):
            return json_response({"removed": 1})
        return json_response({"message": f"There is no fault {rule_id!r}."}, 404)
    return json_response({"message": f"{request.method} is not for {request.path}."}, 405)


def _add(faults: Faults, request: HttpRequest) -> HttpResponse:
    try:
        value = msgspec.json.decode(request.body)
    except msgspec.DecodeError:
        return json_response({"message": "A fault is a JSON object."}, 400)
    try:
        rule = faults.add(value)
    except FaultRefused as error:
        return json_response({"message": str(error)}, 400)
    return json_response(rule.to_json(), 201)
