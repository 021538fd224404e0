"""Runs the operations of an owned service: checks the caller's permission, validates the input, calls the action."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from typing import Any

from headrace.aws.calls.errors import (
    AwsError,
    internal_failure,
    serialization_error,
    unknown_operation,
)
from headrace.aws.calls.model import protocol_of
from headrace.aws.calls.operation import Action, Call
from headrace.aws.protocols.service import ServiceApi
from headrace.aws.protocols.strictness import Strictness
from headrace.aws.protocols.validate import validate

log = logging.getLogger(__name__)


class Operations:
    """The operations of one service, independent of the wire protocol. Thread-safe.

    With `strict`, parameters that would be ignored are refused.
    """

    def __init__(self, api: ServiceApi, *, strict: bool) -> None:
        self._api = api
        self._strictness = Strictness.of(api.name, api.actions, api.fidelity) if strict else None
        self._actions: dict[str, Action] = api.by_name()

    @functools.cached_property
    def protocol(self) -> str:
        """The service's protocol, as botocore names it."""
        return protocol_of(self._api.name)

    def run(self, operation: str, params: Mapping[str, Any], call: Call) -> dict[str, Any]:
        """Run an operation and return its output. Raises AwsError only."""
        api = self._api
        action = self._actions.get(operation)
        if action is None:
            log.warning("headrace does not implement %s:%s", api.name, operation)
            raise unknown_operation(operation, api.name)
        try:
            if call.permit is not None:
                account, region = call.account, call.region
                call.permit.ask(api.name, operation, params, account=account, region=region)
            protocol = self.protocol
            if protocol != "rest-xml":
                code = "ValidationError" if protocol == "query" else "ValidationException"
                validate(api.name, operation, params, code=code, wording=api.wording)
            if self._strictness is not None:
                self._strictness.check(operation, params)
            output = action(api.backend, call, params)
        except Exception as error:
            raise self.error_of(error, operation) from error
        return dict(output) if output else {}

    def error_of(self, error: Exception, operation: str) -> AwsError:
        """Return the AWS error for an exception of an operation; log it when it is a defect of headrace."""
        if isinstance(error, AwsError):
            return error
        if isinstance(error, RecursionError):  # a document inside the request, such as a policy
            return serialization_error("The request is nested too deeply")
        translated = self._api.translate(error)
        if translated is not None:
            return translated
        log.error("%s:%s failed", self._api.name, operation, exc_info=error)
        return internal_failure()
