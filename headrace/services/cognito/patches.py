"""Cognito user pools: their Lambda triggers, which moto does not call, and deletions of resource servers.

moto sends no messages and takes any confirmation code; so a custom message is asked for, checked, and sent to nobody.

A function may call any service, moto's too: no lock is held while one runs (`headrace.moto.requests.kinds`: these
operations wait), and moto's own methods run under the lock here.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.moto.current_cloud import CURRENT
from headrace.moto.storage.changes import MOTO_LOCK
from headrace.services.cognito.sign_in import (
    PoolClient,
    attributes_of,
    check_secret,
    client_of,
    flat,
    respond,
    sign_in,
)

_CODE = "{####}"
_NEW_IDS = threading.local()


def allow_deletions(module: Any) -> None:
    """Allow deletions of resource servers."""

    def delete_resource_server(self: Any) -> str:
        pool = self.backend.describe_user_pool(self._get_param("UserPoolId"))
        pool.resource_servers.pop(self._get_param("Identifier"), None)
        return ""

    module.CognitoIdpResponse.delete_resource_server = delete_resource_server


def show_domains(module: Any) -> None:
    """Show the configuration of a custom domain, which moto keeps and does not show."""
    to_json = module.CognitoIdpUserPoolDomain.to_json

    @functools.wraps(to_json)
    def with_config(self: Any, extended: bool = True) -> dict[str, Any]:
        shown = to_json(self, extended)
        return {**shown, "CustomDomainConfig": self.custom_domain_config} if extended else shown

    module.CognitoIdpUserPoolDomain.to_json = with_config


def share_key(module: Any) -> None:
    """Let the pools of `moto.cognitoidp.models` share their key, a file of moto's, which cannot be stored."""

    @functools.cache
    def key() -> Any:
        return module.jwk.RSAKey.import_key(
            module.load_resource("cognitoidp/resources/jwks-private.json")
        )

    def read(_: Any) -> Any:
        return key()

    def keep(_: Any, __: Any) -> None:
        """Do nothing: moto sets the same key in each new pool."""

    module.CognitoIdpUserPool.json_web_key = property(read, keep)


def name_users_first(module: Any) -> None:
    """Let a new user of `moto.cognitoidp.models` have the id that its pre sign-up function was told."""
    init = module.CognitoIdpUser.__init__

    @functools.wraps(init)
    def make(self: Any, user_pool_id: str, username: str | None, *args: Any, **named: Any) -> None:
        init(self, user_pool_id, username, *args, **named)
        new_id = getattr(_NEW_IDS, "id", None)
        if new_id is not None:
            self.id, self.username = new_id, username or new_id
            self.update_attributes([{"Name": "sub", "Value": new_id}])

    module.CognitoIdpUser.__init__ = make


def call_triggers(module: Any) -> None:
    """Let `moto.cognitoidp.responses` call the functions of a pool."""
    response = module.CognitoIdpResponse
    for name, around in _AROUND.items():
        setattr(response, name, _with_triggers(getattr(response, name), around))
    response.resend_confirmation_code = _resend_code


def _with_triggers(method: Any, around: Callable[[Any, Callable[[], Any]], Any]) -> Any:
    @functools.wraps(method)
    def run(self: Any) -> Any:
        def original() -> Any:
            with MOTO_LOCK:
                return method(self)

        # While stored requests are repeated there is nobody to call.
        if CURRENT.function_calls is None:
            return original()
        if method.__name__ in _OF_CLIENTS:
            _check_client(self)
        return around(self, original)

    return run


# Clients send these, with their secret's proof as a member of its own.
_OF_CLIENTS = ("sign_up", "confirm_sign_up", "forgot_password", "confirm_forgot_password")


def _check_client(self: Any) -> None:
    client = client_of(self)
    if client is not None:
        check_secret(client, str(self._get_param("Username")), self._get_param("SecretHash"))


# --- signing up ----------------------------------------------------------------------------------


def _check_new_user(self: Any, original: Callable[[], Any], source: str) -> tuple[Any, Any, Any]:
    """Make a user whom the pre sign-up function lets in; return moto's answer, the client and the user."""
    client, username = client_of(self), str(self._get_param("Username"))
    if (
        client is None
        or client.find_user(username) is not None
        or not client.function("PreSignUp")[0]
    ):
        answer = original()
        return answer, client, None if client is None else client.find_user(username)
    from moto.moto_api._internal import mock_random

    new_id, attributes = str(mock_random.uuid4()), flat(self._get_param("UserAttributes"))
    by_attribute = client.pool.extended_config.get("UsernameAttributes") or ()
    if by_attribute:
        attributes["email" if "@" in username else "phone_number"] = username
    answered = client.call(
        "PreSignUp",
        source,
        new_id if by_attribute else username,
        {"userAttributes": attributes, "validationData": flat(self._get_param("ValidationData"))},
        {"autoConfirmUser": False, "autoVerifyEmail": False, "autoVerifyPhone": False},
    )
    assert answered is not None
    _NEW_IDS.id = new_id
    try:
        answer = original()
    finally:
        _NEW_IDS.id = None
    user = client.find_user(username)
    if source == "SignUp":
        _apply_sign_up(user, answered)
    return answer, client, user


def _apply_sign_up(user: Any, answered: Mapping[str, Any]) -> None:
    from moto.cognitoidp.models import UserStatus

    with MOTO_LOCK:
        for member, attribute in (("Email", "email"), ("Phone", "phone_number")):
            if answered.get(f"autoVerify{member}") is True and attribute in user.attribute_lookup:
                user.update_attributes([{"Name": f"{attribute}_verified", "Value": "true"}])
        if answered.get("autoConfirmUser") is True:
            user.status = UserStatus.CONFIRMED


def _is_confirmed(user: Any) -> bool:
    return str(getattr(user.status, "value", user.status)) == "CONFIRMED"


def _sign_up(self: Any, original: Callable[[], Any]) -> Any:
    answer, client, user = _check_new_user(self, original, "SignUp")
    is_confirmed = _is_confirmed(user)
    answer.result["UserConfirmed"] = is_confirmed
    if is_confirmed:
        answer.result.pop("CodeDeliveryDetails", None)
        _confirm(client, user, "ConfirmSignUp")
    elif answer.result.get("CodeDeliveryDetails"):
        _ask_for_message(client, user, "SignUp")
    return answer


def _create_user(self: Any, original: Callable[[], Any]) -> Any:
    answer, client, user = _check_new_user(self, original, "AdminCreateUser")
    if self._get_param("MessageAction") != "SUPPRESS":
        _ask_for_message(client, user, "AdminCreateUser")
    return answer


def _confirm_sign_up(self: Any, original: Callable[[], Any]) -> Any:
    answer, client = original(), client_of(self)
    assert client is not None
    user = client.find_user(str(self._get_param("Username")))
    if self._get_param("ConfirmationCode"):
        # Documented: the code proves the attribute that it was sent to, the number if there are both.
        proven = client.pool.extended_config.get("AutoVerifiedAttributes") or ()
        for attribute in ("phone_number", "email"):
            if attribute in proven and attribute in user.attribute_lookup:
                with MOTO_LOCK:
                    user.update_attributes([{"Name": f"{attribute}_verified", "Value": "true"}])
                break
    _confirm(client, user, "ConfirmSignUp")
    return answer


def _confirm_password(self: Any, original: Callable[[], Any]) -> Any:
    answer, client = original(), client_of(self)
    assert client is not None
    _confirm(client, client.find_user(str(self._get_param("Username"))), "ConfirmForgotPassword")
    return answer


def _confirm(client: PoolClient, user: Any, source: str) -> None:
    client.call(
        "PostConfirmation", source, user.username, {"userAttributes": attributes_of(user)}, {}
    )


def _ask_for_message(client: PoolClient, user: Any, source: str) -> None:
    by_administrator = source == "AdminCreateUser"
    request = {
        "userAttributes": attributes_of(user),
        "codeParameter": _CODE,
        "linkParameter": "{##Click Here##}",
        "usernameParameter": "{username}" if by_administrator else None,
    }
    empty = dict.fromkeys(("smsMessage", "emailMessage", "emailSubject"))
    answered = client.call("CustomMessage", source, user.username, request, empty) or empty
    for member in ("smsMessage", "emailMessage"):
        text = answered.get(member)
        if text and _CODE not in str(text) and "{##" not in str(text):
            raise AwsError(
                "InvalidLambdaResponseException",
                f"CustomMessage failed with error {member} does not contain {_CODE}.",
            )


def _forgot_password(self: Any, original: Callable[[], Any]) -> Any:
    answer, client = original(), client_of(self)
    user = None if client is None else client.find_user(str(self._get_param("Username")))
    if client is not None and user is not None:
        _ask_for_message(client, user, "ForgotPassword")
    return answer


def _resend_code(self: Any) -> Any:
    """ResendConfirmationCode, which moto lacks."""
    from moto.cognitoidp.exceptions import ResourceNotFoundError, UserNotFoundError
    from moto.core.responses import ActionResult

    client, username = client_of(self), str(self._get_param("Username"))
    if client is None:
        raise ResourceNotFoundError(self._get_param("ClientId"))
    check_secret(client, username, self._get_param("SecretHash"))
    pool, user = client.pool, client.find_user(username)
    if user is None:
        raise UserNotFoundError(username)
    if _is_confirmed(user):
        raise AwsError("InvalidParameterException", "User is already confirmed.")
    if CURRENT.function_calls is not None:
        _ask_for_message(client, user, "ResendCode")
    settings = pool.extended_config.get("AccountRecoverySetting")
    details = pool.backend._get_code_delivery_details(settings, user, username)  # noqa: SLF001
    return ActionResult({"CodeDeliveryDetails": details})


_AROUND: dict[str, Callable[[Any, Callable[[], Any]], Any]] = {
    "sign_up": _sign_up,
    "admin_create_user": _create_user,
    "confirm_sign_up": _confirm_sign_up,
    "admin_confirm_sign_up": _confirm_sign_up,
    "confirm_forgot_password": _confirm_password,
    "forgot_password": _forgot_password,
    "initiate_auth": sign_in,
    "admin_initiate_auth": sign_in,
    "respond_to_auth_challenge": respond,
    "admin_respond_to_auth_challenge": respond,
}
