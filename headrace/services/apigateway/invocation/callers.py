"""Who may invoke a method with the authorization AWS_IAM, and how events name them."""

from __future__ import annotations

from typing import Any

from headrace.aws.calls.operation import Signer
from headrace.services.apigateway.invocation.apis import HttpApi, RestApi

ACTION = "execute-api:Invoke"


def denial_of(caller: Signer | None, api: RestApi | HttpApi, arn: str, action: str = ACTION) -> str:
    """Return why a caller may not invoke the method `arn`, or do something else; empty when it may.

    Source: apigateway/latest/developerguide/apigateway-authorization-flow.html (documented): in the API's account a
    policy of the caller or of the API allows it; a caller of another account needs both, and only REST APIs have
    policies.
    """
    if caller is None:
        return "Missing Authentication Token"
    if caller.account != api.account and isinstance(api, HttpApi):
        return f"User: {caller.arn} is not authorized to perform: {action} on resource: {arn}"
    return caller.denial(action, arn, {})


# The members of `identity` that only a signature or a user of Cognito fills: empty in mapping templates
# (LocalStack's tests against AWS, apigateway/test_apigateway_sqs.py, 2025), null in events (documented:
# apigateway/latest/developerguide/set-up-lambda-proxy-integrations.html).
UNSIGNED = (
    "accessKey", "accountId", "caller", "cognitoAuthenticationProvider", "cognitoAuthenticationType",
    "cognitoIdentityId", "cognitoIdentityPoolId", "principalOrgId", "user", "userArn",
)  # fmt: skip


def identity_of(caller: Signer) -> dict[str, Any]:
    """Return the members of `requestContext.identity` in events of format 1.0.

    Source: apigateway/latest/developerguide/api-gateway-mapping-template-reference.html (documented).
    """
    return {
        "accessKey": caller.access_key,
        "accountId": caller.account,
        "caller": caller.user_id,
        "user": caller.user_id,
        "userArn": caller.arn,
    }
