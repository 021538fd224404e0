"""User pools call their functions, with AWS's documented events, and do as these answer."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.cloud import ACCOUNT
from tests.support.lambda_lab import zipped
from tests.support.policies import TRUST_TEXT
from tests.support.server import ServerProcess

# It keeps each event in a table, whose service is moto's as Cognito is: a lock held meanwhile would stop both.
TRIGGER = """
import boto3, json
table = boto3.resource("dynamodb").Table("events")
def handler(event, context):
    source, response, name = event["triggerSource"], event["response"], event["userName"]
    table.put_item(Item={"id": name + " " + source, "event": json.dumps(event)})
    if name == "refused":
        raise ValueError("We do not know you")
    if name == "odd":
        return "odd"
    if source == "PreSignUp_SignUp":
        response["autoConfirmUser"] = response["autoVerifyEmail"] = name != "slow"
    elif source.startswith("TokenGeneration"):
        claims = {"claimsToAddOrOverride": {"tenant": "t1", "sub": "x"}, "claimsToSuppress": ["email"]}
        response["claimsAndScopeOverrideDetails"] = {
            "idTokenGeneration": claims,
            "accessTokenGeneration": {"claimsToAddOrOverride": {"tenant": "t2"}, "scopesToAdd": ["read"]},
            "groupOverrideDetails": {"groupsToOverride": ["staff"]}}
    elif source == "UserMigration_Authentication":
        if event["request"]["password"] == "Password1!":
            response.update(userAttributes={"email": "old@a.example"}, finalUserStatus="CONFIRMED")
    elif source.startswith("CustomMessage"):
        response.update(emailSubject="s", emailMessage="Your code is " + event["request"]["codeParameter"])
    elif source.startswith("DefineAuth"):
        rounds = event["request"]["session"]
        solved = bool(rounds) and rounds[-1]["challengeResult"]
        response.update(issueTokens=solved, failAuthentication=len(rounds) > 1, challengeName="CUSTOM_CHALLENGE")
    elif source.startswith("CreateAuth"):
        response.update(publicChallengeParameters={"hint": "six"}, privateChallengeParameters={"answer": "6"},
                        challengeMetadata="M")
    elif source.startswith("VerifyAuth"):
        response["answerCorrect"] = (
            event["request"]["privateChallengeParameters"]["answer"] == event["request"]["challengeAnswer"])
    return event
"""
TRIGGERS = (
    "PreSignUp", "PostConfirmation", "PreAuthentication", "PostAuthentication", "CustomMessage", "UserMigration",
    "DefineAuthChallenge", "CreateAuthChallenge", "VerifyAuthChallengeResponse",
)  # fmt: skip


class Lab:
    def __init__(self, cloud: ServerProcess) -> None:
        self.cloud, self.users = cloud, cloud.client("cognito-idp")
        role = cloud.client("iam").create_role(RoleName="r", AssumeRolePolicyDocument=TRUST_TEXT)
        self.function = cloud.client("lambda").create_function(
            FunctionName="trigger",
            Runtime="python3.12",
            Handler="m.handler",
            Role=role["Role"]["Arn"],
            Code={"ZipFile": zipped({"m.py": TRIGGER})},
        )["FunctionArn"]
        cloud.client("dynamodb").create_table(
            TableName="events",
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
        )
        self.pool, self.client = self.make_pool()
        self.allow(self.pool)

    def make_pool(self, **more: Any) -> tuple[str, str]:
        pool = self.users.create_user_pool(
            PoolName="p",
            AutoVerifiedAttributes=["email"],
            LambdaConfig={
                **dict.fromkeys(TRIGGERS, self.function),
                "PreTokenGenerationConfig": {
                    "LambdaArn": self.function,
                    "LambdaVersion": "V2_0",
                },
            },
            **more,
        )["UserPool"]["Id"]
        client = self.users.create_user_pool_client(
            UserPoolId=pool, ClientName="c", ReadAttributes=["email"]
        )["UserPoolClient"]["ClientId"]
        return pool, client

    def allow(self, pool: str) -> None:
        self.cloud.client("lambda").add_permission(
            FunctionName="trigger",
            StatementId=pool,
            Action="lambda:InvokeFunction",
            Principal="cognito-idp.amazonaws.com",
            SourceArn=f"arn:aws:cognito-idp:us-east-1:{ACCOUNT}:userpool/{pool}",
        )

    def sign_up(self, name: str, **more: Any) -> dict[str, Any]:
        return self.users.sign_up(
            ClientId=self.client,
            Username=name,
            Password="Password1!",
            UserAttributes=[{"Name": "email", "Value": f"{name}@a.example"}],
            **more,
        )

    def sign_in(self, name: str) -> dict[str, Any]:
        return self.users.initiate_auth(
            ClientId=self.client,
            AuthFlow="USER_PASSWORD_AUTH",
            AuthParameters={"USERNAME": name, "PASSWORD": "Password1!"},
            ClientMetadata={"why": "w"},
        )["AuthenticationResult"]

    def event(self, name: str, source: str) -> dict[str, Any]:
        kept = self.cloud.client("dynamodb").get_item(
            TableName="events", Key={"id": {"S": f"{name} {source}"}}
        )
        return json.loads(kept["Item"]["event"]["S"])


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with ServerProcess(tmp_path_factory.mktemp("pools") / "data") as cloud:
        yield Lab(cloud)


def claims_of(token: str) -> dict[str, Any]:
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def refusal(error: pytest.ExceptionInfo[ClientError]) -> tuple[str, str]:
    told = error.value.response["Error"]
    return told["Code"], told["Message"]


def test_a_user_signs_up_and_in_as_the_pools_functions_say(lab: Lab):
    answer = lab.sign_up(
        "ann", ValidationData=[{"Name": "v", "Value": "1"}], ClientMetadata={"m": "2"}
    )
    assert answer["UserConfirmed"]
    assert "CodeDeliveryDetails" not in answer
    before = lab.event("ann", "PreSignUp_SignUp")
    assert before == {
        "version": "1",
        "region": "us-east-1",
        "userPoolId": lab.pool,
        "userName": "ann",
        "callerContext": {"awsSdkVersion": "aws-sdk-unknown-unknown", "clientId": lab.client},
        "triggerSource": "PreSignUp_SignUp",
        "request": {
            "userAttributes": {"email": "ann@a.example"},
            "validationData": {"v": "1"},
            "clientMetadata": {"m": "2"},
        },
        "response": {"autoConfirmUser": False, "autoVerifyEmail": False, "autoVerifyPhone": False},
    }
    attributes = {
        "sub": answer["UserSub"],
        "email": "ann@a.example",
        "email_verified": "true",
        "cognito:user_status": "CONFIRMED",
    }
    after = lab.event("ann", "PostConfirmation_ConfirmSignUp")
    assert after["request"] == {"userAttributes": attributes, "clientMetadata": {"m": "2"}}
    tokens = lab.sign_in("ann")
    assert lab.event("ann", "PreAuthentication_Authentication")["request"] == {
        "userAttributes": attributes,
        "validationData": {"why": "w"},
    }
    assert (
        lab.event("ann", "PostAuthentication_Authentication")["request"]["newDeviceUsed"] is False
    )
    asked = lab.event("ann", "TokenGeneration_Authentication")
    assert asked["version"] == "2"
    assert asked["request"]["scopes"] == ["aws.cognito.signin.user.admin"]
    identity, access = claims_of(tokens["IdToken"]), claims_of(tokens["AccessToken"])
    assert (identity["tenant"], identity["sub"]) == ("t1", answer["UserSub"])
    assert "email" not in identity
    assert identity["cognito:groups"] == ["staff"]
    assert (access["tenant"], access["scope"]) == ("t2", "aws.cognito.signin.user.admin read")
    # The changed token is the one that counts.
    assert lab.users.get_user(AccessToken=tokens["AccessToken"])["Username"] == "ann"
    again = lab.users.initiate_auth(
        ClientId=lab.client,
        AuthFlow="REFRESH_TOKEN_AUTH",
        AuthParameters={"REFRESH_TOKEN": tokens["RefreshToken"]},
    )["AuthenticationResult"]
    assert claims_of(again["IdToken"])["tenant"] == "t1"
    assert lab.event("ann", "TokenGeneration_RefreshTokens")


def test_a_code_is_asked_for_and_confirms(lab: Lab):
    assert not lab.sign_up("slow")["UserConfirmed"]
    message = lab.event("slow", "CustomMessage_SignUp")["request"]
    assert (message["codeParameter"], message["usernameParameter"]) == ("{####}", None)
    named = {"ClientId": lab.client, "Username": "slow"}
    assert lab.users.resend_confirmation_code(**named)["CodeDeliveryDetails"]
    assert lab.event("slow", "CustomMessage_ResendCode")
    lab.users.confirm_sign_up(**named, ConfirmationCode="123456")
    confirmed = lab.event("slow", "PostConfirmation_ConfirmSignUp")["request"]["userAttributes"]
    assert confirmed["email_verified"] == "true"
    lab.users.forgot_password(**named)
    assert lab.event("slow", "CustomMessage_ForgotPassword")
    lab.users.confirm_forgot_password(**named, ConfirmationCode="1", Password="Password1!")
    assert lab.event("slow", "PostConfirmation_ConfirmForgotPassword")


def test_an_administrators_user_changes_the_password(lab: Lab):
    lab.users.admin_create_user(UserPoolId=lab.pool, Username="bob", TemporaryPassword="Password1!")
    assert lab.event("bob", "PreSignUp_AdminCreateUser")
    assert lab.event("bob", "CustomMessage_AdminCreateUser")["request"]["usernameParameter"]
    challenge = lab.users.admin_initiate_auth(
        UserPoolId=lab.pool,
        ClientId=lab.client,
        AuthFlow="ADMIN_USER_PASSWORD_AUTH",
        AuthParameters={"USERNAME": "bob", "PASSWORD": "Password1!"},
    )
    lab.users.respond_to_auth_challenge(
        ClientId=lab.client,
        ChallengeName="NEW_PASSWORD_REQUIRED",
        Session=challenge["Session"],
        ChallengeResponses={"USERNAME": "bob", "NEW_PASSWORD": "Password2!"},
    )
    assert lab.event("bob", "TokenGeneration_NewPasswordChallenge")


def test_a_user_of_an_older_directory_is_taken_over(lab: Lab):
    assert claims_of(lab.sign_in("old")["IdToken"])["tenant"] == "t1"
    assert (
        lab.users.admin_get_user(UserPoolId=lab.pool, Username="old")["UserStatus"] == "CONFIRMED"
    )


def test_a_pools_own_challenge_is_asked_until_it_is_solved(lab: Lab):
    lab.sign_up("eve")

    def begin() -> dict[str, Any]:
        return lab.users.initiate_auth(
            ClientId=lab.client, AuthFlow="CUSTOM_AUTH", AuthParameters={"USERNAME": "eve"}
        )

    def answer(session: str, text: str) -> dict[str, Any]:
        return lab.users.respond_to_auth_challenge(
            ClientId=lab.client,
            ChallengeName="CUSTOM_CHALLENGE",
            Session=session,
            ChallengeResponses={"USERNAME": "eve", "ANSWER": text},
        )

    first = begin()
    assert first["ChallengeParameters"] == {"hint": "six", "USERNAME": "eve"}
    second = answer(first["Session"], "5")
    asked = lab.event("eve", "CreateAuthChallenge_Authentication")["request"]["session"]
    assert asked == [
        {"challengeName": "CUSTOM_CHALLENGE", "challengeResult": False, "challengeMetadata": "M"}
    ]
    assert answer(second["Session"], "6")["AuthenticationResult"]["IdToken"]
    with pytest.raises(lab.users.exceptions.NotAuthorizedException):
        answer(first["Session"], "6")
    with pytest.raises(lab.users.exceptions.NotAuthorizedException):
        answer(answer(begin()["Session"], "5")["Session"], "5")


def test_a_function_that_fails_lets_nobody_in(lab: Lab):
    with pytest.raises(ClientError) as refused:
        lab.sign_up("refused")
    assert refusal(refused) == (
        "UserLambdaValidationException",
        "PreSignUp failed with error We do not know you.",
    )
    with pytest.raises(lab.users.exceptions.UserNotFoundException):
        lab.users.admin_get_user(UserPoolId=lab.pool, Username="refused")
    with pytest.raises(ClientError) as refused:
        lab.sign_up("odd")
    assert refusal(refused) == ("InvalidLambdaResponseException", "Unrecognizable lambda output")
    _, client = lab.make_pool()
    with pytest.raises(ClientError) as refused:
        lab.users.sign_up(ClientId=client, Username="ann", Password="Password1!")
    assert refusal(refused) == (
        "UnexpectedLambdaException",
        "PreSignUp invocation failed due to error AccessDeniedException.",
    )


def test_a_user_named_by_an_address_has_the_id_that_the_function_was_told(lab: Lab):
    pool, client = lab.make_pool(UsernameAttributes=["email"])
    lab.allow(pool)
    answer = lab.users.sign_up(ClientId=client, Username="me@a.example", Password="Password1!")
    told = lab.event(answer["UserSub"], "PreSignUp_SignUp")
    assert told["request"]["userAttributes"] == {"email": "me@a.example"}


@pytest.mark.slow
def test_what_the_functions_said_outlasts_a_kill(lab: Lab):
    answer = lab.sign_up("kim")
    lab.cloud.kill9()
    lab.cloud.start()
    again = lab.cloud.client("cognito-idp").admin_get_user(UserPoolId=lab.pool, Username="kim")
    attributes = {one["Name"]: one["Value"] for one in again["UserAttributes"]}
    assert (again["UserStatus"], attributes["email_verified"]) == ("CONFIRMED", "true")
    assert attributes["sub"] == answer["UserSub"]
