"""Challenges and secrets of a pool's clients: whom they let in, and for how long."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.core.ports import InvokeResult
from headrace.moto.current_cloud import Connections
from tests.api.cognito.test_triggers import lab as lab  # a fixture
from tests.api.cognito.test_triggers import (
    refusal,
)
from tests.support.cloud import ACCOUNT
from tests.support.moto_lab import MotoLab


class _Solved:
    """Functions in this process: any answer but "no" solves the one challenge."""

    def service_may_invoke(self, *_: Any, **__: Any) -> bool:
        return True

    def invoke(self, function_arn: str, payload: bytes) -> InvokeResult:
        event = json.loads(payload)
        if event["triggerSource"].startswith("Define"):
            rounds = event["request"]["session"]
            event["response"].update(
                issueTokens=bool(rounds) and rounds[-1]["challengeResult"],
                challengeName="CUSTOM_CHALLENGE",
            )
        elif event["triggerSource"].startswith("Verify"):
            event["response"]["answerCorrect"] = event["request"]["challengeAnswer"] != "no"
        elif event["userName"] == "odd" and event["triggerSource"].startswith("Token"):
            event["response"]["claimsOverrideDetails"] = {"claimsToAddOrOverride": ["tenant"]}
        return InvokeResult(json.dumps(event).encode(), None, "$LATEST", "r")


class Challenges:
    """A pool with functions of its own challenges in `lab`, and a confirmed user."""

    def __init__(self, lab: MotoLab) -> None:
        lab.moto.connect(Connections(control=lab.outside, function_calls=_Solved()))
        self.users = lab.client("cognito-idp")
        names = (
            "DefineAuthChallenge", "CreateAuthChallenge", "VerifyAuthChallengeResponse", "PreTokenGeneration",
        )  # fmt: skip
        arn = f"arn:aws:lambda:us-east-1:{ACCOUNT}:function:f"
        self.pool = self.users.create_user_pool(
            PoolName="p", LambdaConfig=dict.fromkeys(names, arn)
        )["UserPool"]["Id"]
        self.client = self.make_client()["ClientId"]
        self.users.admin_create_user(UserPoolId=self.pool, Username="ann")
        self.users.admin_set_user_password(
            UserPoolId=self.pool, Username="ann", Password="Password1!", Permanent=True
        )

    def make_client(self, **more: Any) -> dict[str, Any]:
        return self.users.create_user_pool_client(UserPoolId=self.pool, ClientName="c", **more)[
            "UserPoolClient"
        ]

    def begin(
        self, name: str = "ann", client: str = "", flow: str = "CUSTOM_AUTH", **more: str
    ) -> dict[str, Any]:
        return self.users.initiate_auth(
            ClientId=client or self.client, AuthFlow=flow, AuthParameters={"USERNAME": name, **more}
        )

    def answer(self, session: str, client: str = "", **more: str) -> dict[str, Any]:
        return self.users.respond_to_auth_challenge(
            ClientId=client or self.client,
            ChallengeName="CUSTOM_CHALLENGE",
            Session=session,
            ChallengeResponses={"USERNAME": "ann", "ANSWER": "yes", **more},
        )


@pytest.fixture
def challenges(tmp_path: Path) -> Iterator[tuple[Challenges, MotoLab]]:
    with MotoLab(tmp_path / "moto") as lab:
        yield Challenges(lab), lab


def test_a_challenge_is_of_one_client_and_lasts_some_minutes(
    challenges: tuple[Challenges, MotoLab],
):
    pool, lab = challenges
    assert pool.answer(pool.begin()["Session"])["AuthenticationResult"]["IdToken"]
    other = pool.make_client()["ClientId"]
    with pytest.raises(pool.users.exceptions.NotAuthorizedException):
        pool.answer(pool.begin()["Session"], client=other)
    sessions = [pool.begin()["Session"] for _ in range(3)]
    lab.clock.advance(179)
    assert pool.answer(sessions[0])["AuthenticationResult"]
    lab.clock.advance(2)
    with pytest.raises(pool.users.exceptions.NotAuthorizedException):
        pool.answer(sessions[1])
    pool.begin()
    # Those that nobody answers are not kept.
    from moto.cognitoidp.models import cognitoidp_backends

    (backend,) = (
        one for by in cognitoidp_backends.values() for one in by.values() if one.user_pools
    )
    assert len(backend.user_pools[pool.pool].custom_sessions) == 1


def test_claims_of_a_wrong_form_give_no_tokens(challenges: tuple[Challenges, MotoLab]):
    pool, _ = challenges
    pool.users.admin_create_user(UserPoolId=pool.pool, Username="odd")
    pool.users.admin_set_user_password(
        UserPoolId=pool.pool, Username="odd", Password="Password1!", Permanent=True
    )
    with pytest.raises(ClientError) as refused:
        pool.begin("odd", flow="USER_PASSWORD_AUTH", PASSWORD="Password1!")
    assert refusal(refused) == ("InvalidLambdaResponseException", "Unrecognizable lambda output")


def test_a_pools_own_challenge_is_for_those_who_may_sign_in(
    challenges: tuple[Challenges, MotoLab],
):
    pool, _ = challenges
    errors = pool.users.exceptions
    pool.users.sign_up(ClientId=pool.client, Username="new", Password="Password1!")
    with pytest.raises(errors.UserNotConfirmedException):
        pool.begin("new")
    pool.users.admin_confirm_sign_up(UserPoolId=pool.pool, Username="new")
    with pytest.raises(errors.InvalidParameterException, match="already confirmed"):
        pool.users.resend_confirmation_code(ClientId=pool.client, Username="new")
    pool.users.admin_disable_user(UserPoolId=pool.pool, Username="new")
    with pytest.raises(errors.NotAuthorizedException, match="disabled"):
        pool.begin("new")
    verified = [
        {"Name": "email", "Value": "a@a.example"},
        {"Name": "email_verified", "Value": "true"},
    ]
    pool.users.admin_update_user_attributes(
        UserPoolId=pool.pool, Username="ann", UserAttributes=verified
    )
    pool.users.admin_reset_user_password(UserPoolId=pool.pool, Username="ann")
    for flow in ("CUSTOM_AUTH", "USER_PASSWORD_AUTH"):
        with pytest.raises(errors.PasswordResetRequiredException):
            pool.begin(flow=flow, PASSWORD="Password1!")


def test_an_administrator_names_a_pool_and_a_client_of_the_own_account(
    challenges: tuple[Challenges, MotoLab],
):
    pool, lab = challenges
    for account, client in (("111111111111", pool.client), (ACCOUNT, "none")):
        users = lab.client("cognito-idp", account=account)
        with pytest.raises(users.exceptions.ResourceNotFoundException):
            users.admin_initiate_auth(
                UserPoolId=pool.pool,
                ClientId=client,
                AuthFlow="CUSTOM_AUTH",
                AuthParameters={"USERNAME": "ann"},
            )


@pytest.mark.parametrize("flow", ["CUSTOM_AUTH", "USER_PASSWORD_AUTH"])
def test_a_client_with_a_secret_proves_it(challenges: tuple[Challenges, MotoLab], flow: str):
    pool, _ = challenges
    client = pool.make_client(GenerateSecret=True)
    named = {"client": client["ClientId"], "flow": flow, "PASSWORD": "Password1!"}
    refused = pool.users.exceptions.NotAuthorizedException
    with pytest.raises(refused, match="SECRET_HASH was not received"):
        pool.begin(**named)
    with pytest.raises(refused, match="Unable to verify secret hash"):
        pool.begin(**named, SECRET_HASH="é")
    text = ("ann" + client["ClientId"]).encode()
    proof = base64.b64encode(hmac.digest(client["ClientSecret"].encode(), text, "sha256")).decode()
    begun = pool.begin(**named, SECRET_HASH=proof)
    if flow == "CUSTOM_AUTH":
        with pytest.raises(refused, match="SECRET_HASH was not received"):
            pool.answer(begun["Session"], client["ClientId"])
        begun = pool.answer(begun["Session"], client["ClientId"], SECRET_HASH=proof)
    assert begun["AuthenticationResult"]["IdToken"]


def test_a_new_password_needs_the_clients_secret_too(challenges: tuple[Challenges, MotoLab]):
    pool, _ = challenges
    client = pool.make_client(GenerateSecret=True)
    pool.users.admin_create_user(
        UserPoolId=pool.pool, Username="bob", TemporaryPassword="Password1!"
    )
    text = ("bob" + client["ClientId"]).encode()
    proof = base64.b64encode(hmac.digest(client["ClientSecret"].encode(), text, "sha256")).decode()
    named = {"client": client["ClientId"], "flow": "USER_PASSWORD_AUTH"}
    begun = pool.begin("bob", **named, PASSWORD="Password1!", SECRET_HASH=proof)

    def answer(**more: str) -> dict[str, Any]:
        return pool.users.respond_to_auth_challenge(
            ClientId=client["ClientId"],
            ChallengeName="NEW_PASSWORD_REQUIRED",
            Session=begun["Session"],
            ChallengeResponses={"USERNAME": "bob", "NEW_PASSWORD": "Password2!", **more},
        )

    with pytest.raises(pool.users.exceptions.NotAuthorizedException, match="SECRET_HASH"):
        answer()
    assert answer(SECRET_HASH=proof)["AuthenticationResult"]["IdToken"]


@pytest.mark.parametrize(
    ("call", "more"),
    [
        ("sign_up", {"Password": "Password1!"}),
        ("confirm_sign_up", {"ConfirmationCode": "1"}),
        ("resend_confirmation_code", {}),
        ("forgot_password", {}),
        ("confirm_forgot_password", {"ConfirmationCode": "1", "Password": "Password1!"}),
    ],
)
def test_a_clients_call_needs_its_secret(
    challenges: tuple[Challenges, MotoLab], call: str, more: dict[str, str]
):
    pool, _ = challenges
    client = pool.make_client(GenerateSecret=True)
    named = {"ClientId": client["ClientId"], "Username": "new", **more}
    if call != "sign_up":
        pool.users.sign_up(ClientId=pool.client, Username="new", Password="Password1!")
    with pytest.raises(pool.users.exceptions.NotAuthorizedException, match="SECRET_HASH"):
        getattr(pool.users, call)(**named)
    text = ("new" + client["ClientId"]).encode()
    proof = base64.b64encode(hmac.digest(client["ClientSecret"].encode(), text, "sha256")).decode()
    getattr(pool.users, call)(**named, SecretHash=proof)
