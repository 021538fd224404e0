"""The cloud's own pages for faults on demand: `/_headrace/faults`."""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.aws.faults import FaultRefused, Faults
from headrace.aws.http import HttpRequest, HttpResponse

PATH = "/_headrace/faults"


def answer(faults: Faults, request: HttpRequest) -> HttpResponse:
    """Answer GET (all), POST (add one), DELETE (all, or with an id one)."""
    rule_id = request.decoded_path.removeprefix(PATH).removeprefix("/")
    if request.method == "GET" and not rule_id:
        return _json({"faults": [rule.described() for rule in faults.rules]})
    if request.method == "POST" and not rule_id:
        return _add(faults, request)
    if request.method == "DELETE":
        if not rule_id:
            return _json({"removed": faults.clear()})
        if faults.remove(rule_id):
            return _json({"removed": 1})
        return _json({"message": f"There is no fault {rule_id!r}."}, 404)
    return _json({"message": f"{request.method} is not for {request.path}."}, 405)


def _add(faults: Faults, request: HttpRequest) -> HttpResponse:
    try:
        value = msgspec.json.decode(request.body)
    except msgspec.DecodeError:
        return _json({"message": "A fault is a JSON object."}, 400)
    try:
        rule = faults.add(value)
    except FaultRefused as error:
        return _json({"message": str(error)}, 400)
    return _json(rule.described(), 201)


def _json(value: Any, status: int = 200) -> HttpResponse:
    return HttpResponse(status, [("Content-Type", "application/json")], msgspec.json.encode(value))
