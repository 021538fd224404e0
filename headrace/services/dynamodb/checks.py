"""Refuses a Query without a key, a transaction's entry without exactly one action, and other requests, as AWS does.

The sentences are those that dynalite's and moto's tests observed on AWS.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

from headrace.moto.patching import check_first


def patch(handler: Any) -> None:
    """Add the checks before methods of moto's responses; called once."""
    for name, check in (
        ("query", _check_query),
        ("transact_write_items", _check_actions),
        ("create_table", _check_billing),
        ("execute_statement", _check_parameters),
    ):
        setattr(handler, name, check_first(check, getattr(handler, name)))
    _name_message()


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


def _check_billing(handler: Any) -> None:
    body: Mapping[str, Any] = handler.body
    if body.get("BillingMode") == "PAY_PER_REQUEST" and body.get("ProvisionedThroughput"):
        raise _invalid(  # recorded
            "One or more parameter values were invalid: Neither ReadCapacityUnits nor WriteCapacityUnits can be"
            " specified when BillingMode is PAY_PER_REQUEST"
        )


def _check_parameters(handler: Any) -> None:
    if handler.body.get("Parameters") == []:
        raise _invalid(  # recorded
            "1 validation error detected: Value '[]' at 'parameters' failed to satisfy constraint: Member must have"
            " length greater than or equal to 1"
        )


def _name_message() -> None:
    """Call the message of a failed condition with the item `Message`, as AWS does (recorded)."""
    from moto.dynamodb.exceptions import ConditionalCheckFailed

    failed: Any = ConditionalCheckFailed
    init: Any = failed.__init__

    @functools.wraps(init)
    def make(self: Any, msg: str | None = None, item: Mapping[str, Any] | None = None) -> None:
        init(self, msg, item)
        if item:
            members = json.loads(self.description)
            members["Message"] = members.pop("message")
            self.description = json.dumps(members)

    failed.__init__ = make


def _invalid(message: str) -> Exception:
    from moto.dynamodb.exceptions import MockValidationException

    return MockValidationException(message)
