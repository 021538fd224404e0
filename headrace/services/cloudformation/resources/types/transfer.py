"""Transfer Family: servers and users, as stored settings: nothing listens."""

from __future__ import annotations

from headrace.core.arn import make_arn
from headrace.services.cloudformation.resources.declaration import Call, DeclaredType, Values


def _server_id(values: Values) -> str:
    return values.id.rpartition("/")[2]


def _server_arn(values: Values) -> str:
    scope = values.context.region, values.context.account
    return make_arn("transfer", *scope, f"server/{values.answer['ServerId']}")


def _user_arn(values: Values) -> str:
    scope = values.context.region, values.context.account
    return make_arn("transfer", *scope, f"user/{values.get('ServerId')}/{values.get('UserName')}")


_USER = {"ServerId": "ServerId", "UserName": "UserName"}

DECLARED = [
    DeclaredType(
        "AWS::Transfer::User",
        "transfer",
        create=[Call("CreateUser")],
        id=_user_arn,
        read=Call("DescribeUser", _USER),
        # moto has no UpdateUser: a user is created again under its name.
        name="UserName",
        delete=[Call("DeleteUser", _USER)],
        attributes={"Arn": "@id"},
    ),
    DeclaredType(
        "AWS::Transfer::Server",
        "transfer",
        create=[Call("CreateServer")],
        id=_server_arn,
        read=Call("DescribeServer", {"ServerId": _server_id}),
        delete=[Call("DeleteServer", {"ServerId": _server_id})],
        attributes={"Arn": "@id", "ServerId": _server_id, "State": "@answer.Server.State"},
    ),
]
