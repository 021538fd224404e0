"""Calls the Lambda triggers of user pools.

Events: docs.aws.amazon.com/cognito/latest/developerguide/cognito-user-pools-working-with-lambda-triggers.html and the
pages of each trigger (documented); the sentences of failures are those that users report (observed by others).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.core.ports import FunctionNotFound, FunctionThrottled
from headrace.moto.current_cloud import CURRENT
from headrace.moto.storage.changes import MOTO_LOCK

_SERVICE = "cognito-idp.amazonaws.com"
_SOURCES = {"PreTokenGeneration": "TokenGeneration"}


@dataclass(frozen=True, slots=True)
class PoolClient:
    """A pool, the client that a request comes by ("" for an administrator without one), and its metadata."""

    pool: Any
    id: str
    metadata: Any

    def function(self, trigger: str) -> tuple[str, str]:
        """Return the ARN of a trigger's function and its event's version; "" without one."""
        config: Mapping[str, Any] = self.pool.extended_config.get("LambdaConfig") or {}
        versioned = cast("Mapping[str, Any]", config.get(f"{trigger}Config") or {})
        if versioned.get("LambdaArn"):
            return str(versioned["LambdaArn"]), str(versioned.get("LambdaVersion", "V1_0"))[1:2]
        return str(config.get(trigger) or ""), "1"

    def find_user(self, username: str) -> Any:
        """Return the pool's user of a name or, where these are names, of an attribute; None without one."""
        return self.pool._get_user(username)  # noqa: SLF001

    def log_in(self, username: str) -> dict[str, Any]:
        """Return moto's answer with new tokens of a user. The caller holds `MOTO_LOCK`."""
        log_in = self.pool.backend._log_user_in  # noqa: SLF001
        return log_in(self.pool, self.pool.clients[self.id], username)

    def call(
        self, trigger: str, source: str, username: str, request: Any, response: Any
    ) -> dict[str, Any] | None:
        """Return the response that a trigger's function gives; None without one. Raises AwsError.

        `request` and `response` are the event's, without the client's metadata.
        """
        function, version = self.function(trigger)
        if not function:
            return None
        if self.metadata is not None and "clientMetadata" not in request:
            request = {**request, "clientMetadata": self.metadata}
        event: dict[str, Any] = {
            "version": version,
            "region": self.pool.region,
            "userPoolId": self.pool.id,
            "userName": username,
            "callerContext": {
                "awsSdkVersion": "aws-sdk-unknown-unknown",
                "clientId": self.id or "CLIENT_ID_NOT_APPLICABLE",
            },
            "triggerSource": f"{_SOURCES.get(trigger, trigger)}_{source}",
            "request": request,
            "response": response,
        }
        answered = self._invoke(trigger, function, event)
        return {**response, **answered}

    def _invoke(self, trigger: str, function: str, event: Mapping[str, Any]) -> dict[str, Any]:
        calls, arn = CURRENT.function_calls, str(self.pool.arn)
        assert calls is not None
        account = str(self.pool.account_id)
        if not calls.service_may_invoke(function, _SERVICE, source_arn=arn, source_account=account):
            raise _unexpected(trigger, "AccessDeniedException")
        try:
            result = calls.invoke(function, json.dumps(event).encode())
        except FunctionNotFound as error:
            raise _unexpected(trigger, "ResourceNotFoundException") from error
        except FunctionThrottled as error:
            raise _unexpected(trigger, "TooManyRequestsException") from error
        try:
            answered: Any = json.loads(result.payload or b"null")
        except ValueError:
            answered = None
        if result.function_error:
            said = answered.get("errorMessage") if isinstance(answered, dict) else None
            raise AwsError(
                "UserLambdaValidationException", f"{trigger} failed with error {said or 'null'}."
            )
        response = answered.get("response") if isinstance(answered, dict) else None
        if not isinstance(response, dict):
            raise AwsError("InvalidLambdaResponseException", "Unrecognizable lambda output")
        return cast("dict[str, Any]", response)


def _unexpected(trigger: str, why: str) -> AwsError:
    return AwsError("UnexpectedLambdaException", f"{trigger} invocation failed due to error {why}.")


def client_of(self: Any) -> PoolClient | None:
    """Return the client or the pool that a request of moto's names; None when it does not exist.

    An administrator names a pool of the own account and region; a client's id is public, and leads to its pool.
    """
    from moto.cognitoidp.models import cognitoidp_backends

    pool_id, client_id = self._get_param("UserPoolId"), self._get_param("ClientId")
    with MOTO_LOCK:
        regions = list(cast("Any", cognitoidp_backends).values())
        backends = (
            [self.backend] if pool_id else [one for by in regions for one in list(by.values())]
        )
        for backend in backends:
            for pool in backend.user_pools.values():
                is_named = pool.id == pool_id if pool_id else client_id in pool.clients
                if is_named and (not client_id or client_id in pool.clients):
                    return PoolClient(pool, client_id or "", self._get_param("ClientMetadata"))
    return None


def flat(attributes: Any) -> dict[str, str]:
    """Return attributes as a map."""
    return {pair["Name"]: str(pair.get("Value", "")) for pair in attributes or ()}


def attributes_of(user: Any) -> dict[str, str]:
    """Return a user's attributes as events have them."""
    status = str(getattr(user.status, "value", user.status))
    return {**flat(user.attributes), "cognito:user_status": status}
