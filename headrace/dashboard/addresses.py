"""Lists where an account's APIs and function URLs answer here: outputs of stacks name AWS's hosts."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from headrace.dashboard.account import Account, Reader, next_token
from headrace.services.apigateway.invocation.front import API_PATH


def read_addresses(account: Account) -> dict[str, Any]:
    """Return the paths below the cloud's URL at which APIs' stages and functions answer, and the calls refused."""
    reader = Reader(account)
    addresses = [*_rest_apis(reader), *_other_apis(reader), *_functions(reader)]
    return {"addresses": addresses, "refused": reader.refusals()}


def _address(kind: str, name: str, path: str) -> dict[str, str]:
    return {"kind": kind, "name": name, "path": path}


def _rest_apis(reader: Reader) -> list[dict[str, str]]:
    apis = reader.pages("apigateway", "GetRestApis", "items", token=next_token("position"))
    return [
        _address("REST API", api.get("name", ""), f"{API_PATH}{api['id']}/{stage['stageName']}/")
        for api in apis
        for stage in reader.call("apigateway", "GetStages", restApiId=api["id"]).get("item") or ()
    ]


def _other_apis(reader: Reader) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    token = next_token("NextToken")
    for api in reader.pages("apigatewayv2", "GetApis", "Items", token=token):
        of_api = {"ApiId": api["ApiId"]}
        is_http = api["ProtocolType"] == "HTTP"
        for stage in reader.pages("apigatewayv2", "GetStages", "Items", token=token, **of_api):
            name = stage["StageName"]
            # As on AWS the default stage is not in the path, and a WebSocket's path ends with its stage.
            path = "" if name == "$default" else f"{name}/" if is_http else name
            kind = "HTTP API" if is_http else "WebSocket API"
            found.append(_address(kind, api.get("Name", ""), f"{API_PATH}{api['ApiId']}/{path}"))
    return found


def _functions(reader: Reader) -> list[dict[str, str]]:
    token = next_token("NextMarker", "Marker")
    return [
        _address("function URL", function["FunctionName"], urlsplit(str(url["FunctionUrl"])).path)
        for function in reader.pages("lambda", "ListFunctions", "Functions", token=token)
        for url in reader.pages(
            "lambda",
            "ListFunctionUrlConfigs",
            "FunctionUrlConfigs",
            token=token,
            FunctionName=function["FunctionName"],
        )
    ]
