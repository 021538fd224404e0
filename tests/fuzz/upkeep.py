"""Says when what requests need must be made again, and makes it without the cost of a boto3 client.

A fuzzer that puts everything right every 25 requests, by boto3, spends three quarters of its time on that. An operation
that only reads changes nothing, and neither does one that is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from botocore import xform_name
from botocore.exceptions import ClientError

from headrace.aws.calls.http import HttpRequest, HttpResponse
from tests.fuzz.sending import model_of, parsed, request_of

_READS = re.compile(r"^(Get|List|Describe|Head|BatchGet|Query|Scan|Search|Validate|Estimate|Test)")


class Upkeep:
    """Counts what an operation changed, and puts things right every so many requests if there is anything.

    Args:
        every: how many requests may go by after one that was taken.
        put_right: makes again what requests deleted, and deletes what they made.
    """

    def __init__(self, operation: str, every: int, put_right: Callable[[], None]) -> None:
        self._reads = bool(_READS.match(operation))
        self._every = every
        self._put_right = put_right
        self._is_changed = False
        put_right()

    def before(self, number: int) -> None:
        """Put things right where it is time; call it before each request."""
        if self._is_changed and number % self._every == self._every - 1:
            self._put_right()
            self._is_changed = False

    def after(self, status: int) -> None:
        """Note a request's answer."""
        # What fails inside may have done a part of its work.
        if not self._reads and not 300 <= status < 500:
            self._is_changed = True


class Caller:
    """Calls operations as a boto3 client does (`caller.create_stream(StreamName=...)`), without signing anything.

    It raises ClientError for a refusal. `scope` is the service's signing name.
    """

    def __init__(
        self, service: str, scope: str, handle: Callable[[HttpRequest], HttpResponse]
    ) -> None:
        self._service = service
        self._scope = scope
        self._handle = handle
        self._names = {xform_name(name): name for name in model_of(service).operation_names}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        try:
            return partial(self._call, self._names[name])
        except KeyError:
            raise AttributeError(name) from None

    def _call(self, operation: str, **params: Any) -> Any:
        sent = request_of(self._service, operation, params, Random(), self._scope, damaged=0)
        assert sent is not None
        answer = self._handle(sent)
        read = parsed(self._service, operation, answer)
        if answer.status >= 300:
            raise ClientError(read, operation)
        return read
