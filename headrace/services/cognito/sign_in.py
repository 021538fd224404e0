"""Signs users in with the triggers of their pool: authentication, migration, tokens, challenges of the pool's own.

Events and answers: docs.aws.amazon.com/cognito/latest/developerguide/user-pool-lambda-pre-token-generation.html,
user-pool-lambda-challenge.html and user-pool-lambda-migrate-user.html (documented).

Calls the Lambda triggers of user pools.

Events: docs.aws.amazon.com/cognito/latest/developerguide/cognito-user-pools-working-with-lambda-triggers.html and the
pages of each trigger (documented); the sentences of failures are those that users report (observed by others).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportMissingTypeStubs=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.core.ports import FunctionNotFound, FunctionThrottled
from headrace.core.values import parse_json
from headrace.moto.current_cloud import CURRENT
from headrace.moto.storage.changes import MOTO_LOCK

# Documented: claims that a pre token generation function cannot change.
_FIXED_CLAIMS = frozenset((
    "acr", "amr", "at_hash", "auth_time", "azp", "client_id", "cognito:username", "device_key", "event_id", "exp",
    "iat", "iss", "jti", "nbf", "nonce", "origin_jti", "sub", "token_use", "username", "version",
))  # fmt: skip
_WRONG_PASSWORD = "Incorrect username or password."


def sign_in(self: Any, original: Callable[[], Any]) -> Any:
    """InitiateAuth and AdminInitiateAuth; `original` is moto's, under the lock. Raises AwsError."""
    client, flow = client_of(self), str(self._get_param("AuthFlow"))
    if client is None:
        if flow == "CUSTOM_AUTH":
            name = self._get_param("ClientId")
            raise AwsError("ResourceNotFoundException", f"User pool client {name} does not exist.")
        return original()
    parameters: Mapping[str, str] = self._get_param("AuthParameters") or {}
    if flow.startswith("REFRESH_TOKEN"):
        return _issue(client, original(), "RefreshTokens")
    username = str(parameters.get("USERNAME", ""))
    check_secret(client, username, parameters.get("SECRET_HASH"))
    user = client.find_user(username)
    if user is None and client.function("UserMigration")[0] and "PASSWORD" in parameters:
        user = _migrate(client, username, parameters["PASSWORD"])
    if user is not None:
        # Documented: this function gets the client's metadata as validationData.
        request = {"userAttributes": attributes_of(user), "validationData": client.metadata}
        PoolClient(client.pool, client.id, None).call(
            "PreAuthentication", "Authentication", user.username, request, {}
        )
        _check_state(user, flow)
    if flow == "CUSTOM_AUTH":
        return _begin_custom(client, user)
    return _issue(client, original(), "Authentication")


def respond(self: Any, original: Callable[[], Any]) -> Any:
    """RespondToAuthChallenge and AdminRespondToAuthChallenge, as `sign_in`."""
    client, challenge = client_of(self), str(self._get_param("ChallengeName"))
    if client is None:
        return original()
    responses: Mapping[str, Any] = self._get_param("ChallengeResponses") or {}
    check_secret(client, str(responses.get("USERNAME", "")), responses.get("SECRET_HASH"))
    if challenge == "CUSTOM_CHALLENGE":
        return _go_on_custom(
            client, str(self._get_param("Session")), str(responses.get("ANSWER", ""))
        )
    is_new = challenge == "NEW_PASSWORD_REQUIRED"
    return _issue(client, original(), "NewPasswordChallenge" if is_new else "Authentication")


def check_secret(client: PoolClient, username: str, proof: Any) -> None:
    """Raise AwsError when `proof` is not that of the client's secret, if it has one (sentences observed by others)."""
    app = client.pool.clients[client.id]
    if not app.generate_secret:
        return
    if not proof:
        raise AwsError(
            "NotAuthorizedException",
            f"Client {client.id} is configured with secret but SECRET_HASH was not received",
        )
    digest = hmac.digest(str(app.secret).encode(), (username + client.id).encode(), "sha256")
    if not hmac.compare_digest(base64.b64encode(digest), str(proof).encode()):
        raise AwsError(
            "NotAuthorizedException", f"Unable to verify secret hash for client {client.id}"
        )


def _check_state(user: Any, flow: str) -> None:
    """Refuse a user who may not sign in, as far as moto does not: it has no CUSTOM_AUTH."""
    from moto.cognitoidp.models import UserStatus

    if user.status is UserStatus.RESET_REQUIRED:
        raise AwsError("PasswordResetRequiredException", "Password reset required for the user")
    if flow != "CUSTOM_AUTH":
        return
    if not user.enabled:
        raise AwsError("NotAuthorizedException", "User is disabled.")
    if user.status is UserStatus.UNCONFIRMED:
        raise AwsError("UserNotConfirmedException", "User is not confirmed.")


def _migrate(client: PoolClient, username: str, password: str) -> Any:
    """Return the user whom the migration function knows. Raises AwsError."""
    from moto.cognitoidp.models import CognitoIdpUser, UserStatus

    names = ("userAttributes", "finalUserStatus", "messageAction", "desiredDeliveryMediums")
    answered = client.call(
        "UserMigration",
        "Authentication",
        username,
        {"password": password, "validationData": None},
        dict.fromkeys((*names, "forceAliasCreation", "enableSMSMFA")),
    )
    assert answered is not None
    attributes = answered["userAttributes"]
    status = str(answered["finalUserStatus"] or "RESET_REQUIRED")
    statuses: Any = UserStatus
    if not isinstance(attributes, dict) or status not in statuses.__members__:
        raise AwsError("NotAuthorizedException", _WRONG_PASSWORD)
    by_attribute = client.pool.extended_config.get("UsernameAttributes")
    pairs = [{"Name": str(name), "Value": str(value)} for name, value in attributes.items()]
    with MOTO_LOCK:
        user: Any = CognitoIdpUser(
            client.pool.id, None if by_attribute else username, password, statuses[status], pairs
        )
        client.pool.users[user.username] = user
    return user


# --- tokens --------------------------------------------------------------------------------------


def _issue(client: PoolClient, answer: Any, source: str) -> Any:
    """Return moto's answer with the tokens that the pool's functions want. Raises AwsError: then there are none."""
    tokens = (answer.result or {}).get("AuthenticationResult")
    if not tokens:
        return answer
    claims = _claims(tokens["IdToken"])
    # Of users named by an attribute, the token has the id.
    user = client.find_user(claims["cognito:username"]) or client.pool.users[claims["sub"]]
    known = {"userAttributes": attributes_of(user)}
    try:
        if source != "RefreshTokens":
            request = {**known, "newDeviceUsed": False}
            client.call("PostAuthentication", "Authentication", user.username, request, {})
        details = _ask_for_claims(client, user, source, known, tokens["AccessToken"])
        changed = {} if details is None else _change_both(client.pool, tokens, details)
    except AwsError:
        _take_back(client.pool, tokens)
        raise
    with MOTO_LOCK:
        for member, token in changed.items():
            issued = client.pool.id_tokens if member == "IdToken" else client.pool.access_tokens
            issued[token] = issued.pop(tokens[member])
            tokens[member] = token
    return answer


def _change_both(
    pool: Any, tokens: Mapping[str, Any], details: Mapping[str, Any]
) -> dict[str, str]:
    try:
        return {
            member: _change(pool, tokens[member], details, member)
            for member in ("IdToken", "AccessToken")
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise unrecognizable() from error


def _take_back(pool: Any, tokens: Mapping[str, Any]) -> None:
    with MOTO_LOCK:
        pool.id_tokens.pop(tokens["IdToken"], None)
        pool.access_tokens.pop(tokens["AccessToken"], None)
        # A refresh answers no new one.
        pool.refresh_tokens.pop(tokens.get("RefreshToken"), None)


def _ask_for_claims(
    client: PoolClient, user: Any, source: str, known: Mapping[str, Any], access_token: str
) -> dict[str, Any] | None:
    request: dict[str, Any] = {
        **known,
        "groupConfiguration": {
            "groupsToOverride": sorted(group.group_name for group in user.groups),
            "iamRolesToOverride": sorted(group.role_arn for group in user.groups if group.role_arn),
            "preferredRole": None,
        },
    }
    member = "claimsOverrideDetails"
    if client.function("PreTokenGeneration")[1] != "1":
        member = "claimsAndScopeOverrideDetails"
        request["scopes"] = str(_claims(access_token).get("scope", "")).split()
    answered = client.call("PreTokenGeneration", source, user.username, request, {member: None})
    details = (answered or {}).get(member)
    if not isinstance(details, dict):
        return None
    wishes = cast("dict[str, Any]", details)
    # The first version speaks of the identity token alone.
    return wishes if member != "claimsOverrideDetails" else {**wishes, "idTokenGeneration": wishes}


def _claims(token: str) -> dict[str, Any]:
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def _change(pool: Any, token: str, details: Mapping[str, Any], member: str) -> str:
    """Return a token with the claims, groups and scopes that a pre token generation function asks for."""
    from joserfc import jwt

    claims = _claims(token)
    kind = "idTokenGeneration" if member == "IdToken" else "accessTokenGeneration"
    wishes: Mapping[str, Any] = details.get(kind) or {}
    for name in wishes.get("claimsToSuppress") or ():
        if name not in _FIXED_CLAIMS:
            claims.pop(name, None)
    added: Mapping[str, Any] = wishes.get("claimsToAddOrOverride") or {}
    claims |= {name: value for name, value in added.items() if name not in _FIXED_CLAIMS}
    groups: Any = (details.get("groupOverrideDetails") or {}).get("groupsToOverride")
    if groups is not None:
        claims["cognito:groups"] = list(groups)
    if member == "AccessToken":
        gone: set[Any] = set(wishes.get("scopesToSuppress") or ())
        scopes = [scope for scope in str(claims.get("scope", "")).split() if scope not in gone]
        claims["scope"] = " ".join([*scopes, *(wishes.get("scopesToAdd") or ())])
    return str(jwt.encode({"kid": "dummy", "alg": "RS256"}, claims, pool.json_web_key))


# --- challenges of a pool's own functions --------------------------------------------------------


def _sessions(pool: Any) -> dict[str, dict[str, Any]]:
    """Return a pool's challenges that wait for their answer, by session, without those that are too old."""
    # State that was stored before has none.
    sessions: dict[str, dict[str, Any]] = vars(pool).setdefault("custom_sessions", {})
    now_ms = CURRENT.clock.now_ms()
    for session in [key for key, kept in sessions.items() if kept.get("until_ms", 0) <= now_ms]:
        del sessions[session]
    return sessions


def _begin_custom(client: PoolClient, user: Any) -> Any:
    if not client.function("DefineAuthChallenge")[0]:
        raise AwsError(
            "InvalidParameterException",
            "Custom auth lambda trigger is not configured for the user pool.",
        )
    if user is None:
        raise AwsError("NotAuthorizedException", _WRONG_PASSWORD)
    return _define(client, user, [])


def _define(client: PoolClient, user: Any, rounds: list[dict[str, Any]]) -> Any:
    """Ask which challenge comes next, and return it or the tokens. Raises AwsError."""
    from moto.core.responses import ActionResult

    known = {"userAttributes": attributes_of(user), "session": rounds}
    nothing = dict.fromkeys(("challengeName", "issueTokens", "failAuthentication"))
    decided = client.call("DefineAuthChallenge", "Authentication", user.username, known, nothing)
    assert decided is not None
    if decided["issueTokens"] is True:
        with MOTO_LOCK:
            answer = client.log_in(user.username)
        return _issue(client, ActionResult(answer), "Authentication")
    if decided["failAuthentication"] is True or decided["challengeName"] != "CUSTOM_CHALLENGE":
        raise AwsError("NotAuthorizedException", _WRONG_PASSWORD)
    return ActionResult(_create_challenge(client, user, known))


def _create_challenge(client: PoolClient, user: Any, known: Mapping[str, Any]) -> dict[str, Any]:
    from moto.moto_api._internal import mock_random

    public, private = "publicChallengeParameters", "privateChallengeParameters"
    request = {**known, "challengeName": "CUSTOM_CHALLENGE"}
    created = client.call(
        "CreateAuthChallenge",
        "Authentication",
        user.username,
        request,
        dict.fromkeys((public, private, "challengeMetadata")),
    )
    created, session = created or {}, str(mock_random.uuid4())
    minutes = client.pool.clients[client.id].extended_config.get("AuthSessionValidity") or 3
    with MOTO_LOCK:
        _sessions(client.pool)[session] = {
            "client": client.id,
            "until_ms": CURRENT.clock.now_ms() + int(minutes) * 60_000,
            "username": user.username,
            "rounds": known["session"],
            "private": created.get(private) or {},
            "metadata": created.get("challengeMetadata"),
        }
    shown = {**(created.get(public) or {}), "USERNAME": user.username}
    return {"ChallengeName": "CUSTOM_CHALLENGE", "Session": session, "ChallengeParameters": shown}


def _go_on_custom(client: PoolClient, session: str, answer: str) -> Any:
    with MOTO_LOCK:
        kept = _sessions(client.pool).pop(session, None)
    user = None if kept is None else client.pool.users.get(kept["username"])
    if kept is None or user is None or kept["client"] != client.id:
        raise AwsError("NotAuthorizedException", "Invalid session for the user.")
    verified = client.call(
        "VerifyAuthChallengeResponse",
        "Authentication",
        user.username,
        {
            "userAttributes": attributes_of(user),
            "privateChallengeParameters": kept["private"],
            "challengeAnswer": answer,
        },
        {"answerCorrect": None},
    )
    this_round = {
        "challengeName": "CUSTOM_CHALLENGE",
        "challengeResult": (verified or {}).get("answerCorrect") is True,
        "challengeMetadata": kept["metadata"],
    }
    return _define(client, user, [*kept["rounds"], this_round])


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
            raise _trigger_error(trigger, "AccessDeniedException")
        try:
            result = calls.invoke(function, json.dumps(event).encode())
        except FunctionNotFound as error:
            raise _trigger_error(trigger, "ResourceNotFoundException") from error
        except FunctionThrottled as error:
            raise _trigger_error(trigger, "TooManyRequestsException") from error
        try:
            answered: Any = parse_json(result.payload or b"null")
        except ValueError:
            answered = None
        if result.function_error:
            said = answered.get("errorMessage") if isinstance(answered, dict) else None
            raise AwsError(
                "UserLambdaValidationException", f"{trigger} failed with error {said or 'null'}."
            )
        response = answered.get("response") if isinstance(answered, dict) else None
        if not isinstance(response, dict):
            raise unrecognizable()
        return cast("dict[str, Any]", response)


def unrecognizable() -> AwsError:
    """Return the error for a function's answer that has not the event's form."""
    return AwsError("InvalidLambdaResponseException", "Unrecognizable lambda output")


def _trigger_error(trigger: str, why: str) -> AwsError:
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
