"""Refuses a Query without a key, and a transaction's entry without exactly one action: moto fails at them.

The sentences are those that dynalite's and moto's tests observed on AWS.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.moto.patching import check_first


def patch(handler: Any) -> None:
    """Add the checks before methods of moto's responses; called once."""
    for name, check in (("query", _check_query), ("transact_write_items", _check_actions)):
        setattr(handler, name, check_first(check, getattr(handler, name)))


def _check_query(handler: Any) -> None:
    body: Mapping[str, Any] = handler.body
    if not body.get("KeyConditionExpression") and not body.get("KeyConditions"):
        raise _invalid(
            "Either the KeyConditions or KeyConditionExpression parameter must be specified in the request."
        )


def _check_actions(handler: Any) -> None:
    body: Mapping[str, Any] = handler.body
    for entry in body.get("TransactItems") or ():
        if len([action for action in entry.values() if action is not None]) != 1:
            raise _invalid("TransactItems can only contain one of Check, Put, Update or Delete")


def _invalid(message: str) -> Exception:
    from moto.dynamodb.exceptions import MockValidationException

    return MockValidationException(message)
