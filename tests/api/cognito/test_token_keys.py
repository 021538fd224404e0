"""Whoever verifies the tokens of a user pool finds its keys below the pool's id, as below the issuer on AWS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwk, jwt

from headrace.aws.calls.http import HttpRequest
from tests.support.cloud import InProcessCloud


def _document(cloud: InProcessCloud, path: str) -> Any:
    answer = cloud.handle(HttpRequest("GET", path, "", {"host": "localhost"}, b""))
    assert answer.status == 200, answer.body
    body: Any = answer.body
    return json.loads(body)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("cloud") / "data") as cloud:
        yield cloud


def test_a_token_is_verified_by_the_keys_of_its_pool(cloud: InProcessCloud) -> None:
    pools: Any = cloud.client("cognito-idp")
    pool = pools.create_user_pool(PoolName="p")["UserPool"]["Id"]
    flows = ["ALLOW_USER_PASSWORD_AUTH"]
    client = pools.create_user_pool_client(
        UserPoolId=pool, ClientName="c", ExplicitAuthFlows=flows
    )["UserPoolClient"]["ClientId"]
    pools.admin_create_user(UserPoolId=pool, Username="u")
    login = {"USERNAME": "u", "PASSWORD": "Aa1!aaaa"}
    pools.admin_set_user_password(
        UserPoolId=pool, Username="u", Password=login["PASSWORD"], Permanent=True
    )
    token = pools.initiate_auth(
        ClientId=client, AuthFlow="USER_PASSWORD_AUTH", AuthParameters=login
    )["AuthenticationResult"]["IdToken"]
    keys = jwk.KeySet.import_key_set(_document(cloud, f"/{pool}/.well-known/jwks.json"))
    claims = jwt.decode(token, keys, algorithms=["RS256"]).claims
    shown = _document(cloud, f"/{pool}/.well-known/openid-configuration")
    assert (claims["aud"], claims["iss"]) == (client, shown["issuer"])
    assert shown["jwks_uri"].endswith(f"/{pool}/.well-known/jwks.json")


def test_nobody_signs_for_the_keys(tmp_path: Path) -> None:
    with InProcessCloud(tmp_path / "data", auth=True) as cloud:
        path = "/us-east-1_pool/.well-known/jwks.json"
        assert _document(cloud, path)["keys"]
        # No other call of Cognito comes in by that door.
        target = "AWSCognitoIdentityProviderService.ListUserPools"
        headers = {"host": "localhost", "x-amz-target": target}
        for where in (path, "/"):
            answer = cloud.handle(HttpRequest("GET", where, "", headers, b'{"MaxResults": 1}'))
            assert answer.status in (400, 403), answer.body
