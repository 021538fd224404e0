"""Finds credentials, regions and endpoints: with boto3 if it is installed, else in the same places without it.

Without boto3: the environment, a web identity (EKS, EMR on EKS), the shared files' profile, a container's credentials
(EMR Serverless, ECS), and those of an EC2 machine (EMR on EC2). Not the rarer ways of boto3: SSO, `credential_process`,
a profile with a role. These raise NoCredentials, which says to install boto3.
"""

from __future__ import annotations

import configparser
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

from headrace.spark.connections import Connections, Unreachable
from headrace.spark.options import Connection
from headrace.spark.signing import Keys, signed_headers

# Credentials are replaced this long before they end, as boto3 does at the latest.
_AHEAD_S = 600
_IMDS = "http://169.254.169.254"
_ECS = "http://169.254.170.2"
_STS_NAMESPACE = "{https://sts.amazonaws.com/doc/2011-06-15/}"
Temporary = tuple[Keys, float]  # the second is their end in epoch seconds


class NoCredentials(Exception):
    """No credentials are there, or a role cannot be assumed."""


class Refreshing:
    """Credentials that are fetched again before they end. Thread-safe."""

    def __init__(
        self, fetch: Callable[[], Temporary], clock_s: Callable[[], float] = time.time
    ) -> None:
        self._fetch = fetch
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._found: Temporary | None = None

    def __call__(self) -> Keys:
        """Return credentials that hold now. Raises NoCredentials."""
        with self._lock:
            if self._found is None or self._clock_s() > self._found[1] - _AHEAD_S:
                self._found = self._fetch()
            return self._found[0]


def endpoint_of(service: str, region: str) -> str:
    """Return a service's endpoint: as in AWS_ENDPOINT_URL_<SERVICE> or AWS_ENDPOINT_URL, else AWS's."""
    own = os.environ.get(f"AWS_ENDPOINT_URL_{service.upper()}") or os.environ.get(
        "AWS_ENDPOINT_URL"
    )
    if own and os.environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() != "true":
        return own.rstrip("/")
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://{service}.{region}.{domain}"


def region_without_boto3() -> str | None:
    """Return the region of the environment or the profile."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        if os.environ.get(name):
            return os.environ[name]
    return _profile().get("region")


def keys_without_boto3(options: Connection, region: str) -> Callable[[], Keys]:
    """Return a function that returns valid credentials at every call. It and this raise NoCredentials."""
    found = _own_keys(options, region)
    if options.role_arn is None:
        return found
    endpoint = options.sts_endpoint_url or endpoint_of("sts", region)
    asked = {
        "Action": "AssumeRole",
        "RoleArn": options.role_arn,
        "RoleSessionName": options.role_session_name,
    }
    return Refreshing(lambda: _from_sts(endpoint, region, asked, found()))  # fmt: skip


def _own_keys(options: Connection, region: str) -> Callable[[], Keys]:
    if options.access_key_id and options.secret_key:
        keys = Keys(options.access_key_id, options.secret_key, options.session_token)
        return lambda: keys
    env = os.environ
    if env.get("AWS_ACCESS_KEY_ID") and env.get("AWS_SECRET_ACCESS_KEY"):
        token = env.get("AWS_SESSION_TOKEN") or None
        keys = Keys(env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"], token)
        return lambda: keys
    if env.get("AWS_WEB_IDENTITY_TOKEN_FILE") and env.get("AWS_ROLE_ARN"):
        return Refreshing(lambda: _from_web_identity(region))
    profile = _profile()
    if profile.get("aws_access_key_id") and profile.get("aws_secret_access_key"):
        token = profile.get("aws_session_token")
        keys = Keys(profile["aws_access_key_id"], profile["aws_secret_access_key"], token)
        return lambda: keys
    if {"role_arn", "sso_session", "sso_start_url", "credential_process"} & set(profile):
        raise NoCredentials("the profile's way to credentials needs boto3: install it")
    if env.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") or env.get("AWS_CONTAINER_CREDENTIALS_FULL_URI"):  # fmt: skip
        return Refreshing(_from_container)
    if env.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        raise NoCredentials("none in the environment, the profile, or of the machine")
    return Refreshing(_from_machine)


def _profile() -> Mapping[str, str]:
    name = os.environ.get("AWS_PROFILE") or "default"
    found: dict[str, str] = {}
    for variable, path, section in (
        ("AWS_CONFIG_FILE", "~/.aws/config", name if name == "default" else f"profile {name}"),
        ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials", name),
    ):
        parser = configparser.RawConfigParser()
        parser.read(Path(os.environ.get(variable) or path).expanduser())
        if parser.has_section(section):
            found |= dict(parser.items(section))
    return found


def _from_web_identity(region: str) -> Temporary:
    token = Path(os.environ["AWS_WEB_IDENTITY_TOKEN_FILE"]).read_text().strip()
    asked = {
        "Action": "AssumeRoleWithWebIdentity", "RoleArn": os.environ["AWS_ROLE_ARN"],
        "RoleSessionName": os.environ.get("AWS_ROLE_SESSION_NAME") or "headrace-spark",
        "WebIdentityToken": token,
    }  # fmt: skip
    return _from_sts(endpoint_of("sts", region), region, asked, None)


def _from_sts(endpoint: str, region: str, asked: Mapping[str, str], keys: Keys | None) -> Temporary:
    body = urlencode({**asked, "Version": "2011-06-15"}).encode()
    headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    url = endpoint.rstrip("/") + "/"
    if keys is not None:
        headers = signed_headers(keys, "sts", region, ("POST", url, headers, body))
    status, text = _fetched("POST", url, headers, body)
    if status != 200:
        raise NoCredentials(f"{asked['RoleArn']} cannot be assumed: {text[:500]}")
    found = ElementTree.fromstring(text).find(f".//{_STS_NAMESPACE}Credentials")
    if found is None:
        raise NoCredentials(f"{endpoint} gives no credentials for {asked['RoleArn']}")
    names = ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
    values = [found.findtext(f"{_STS_NAMESPACE}{name}") or "" for name in names]
    return Keys(*values[:3]), _epoch_s(values[3])


def _from_container() -> Temporary:
    env = os.environ
    relative = env.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
    url = f"{_ECS}{relative}" if relative else env["AWS_CONTAINER_CREDENTIALS_FULL_URI"]
    token = env.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")
    if env.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
        token = Path(env["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"]).read_text().strip()
    return _from_json(url, {"Authorization": token} if token else {})


def _from_machine() -> Temporary:
    base = (os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or _IMDS).rstrip("/")
    _, token = _fetched(
        "PUT", f"{base}/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": "21600"}
    )
    headers = {"X-aws-ec2-metadata-token": token}
    url = f"{base}/latest/meta-data/iam/security-credentials/"
    status, role = _fetched("GET", url, headers)
    if status != 200:
        raise NoCredentials("none in the environment or the profile, and the machine has no role")
    return _from_json(url + role.split()[0], headers)


def _from_json(url: str, headers: Mapping[str, str]) -> Temporary:
    status, text = _fetched("GET", url, headers)
    if status != 200:
        raise NoCredentials(f"{url} answers {status}: {text[:200]}")
    found: dict[str, Any] = json.loads(text)
    keys = Keys(found["AccessKeyId"], found["SecretAccessKey"], found.get("Token"))
    return keys, _epoch_s(found.get("Expiration") or "")


def _fetched(
    method: str, url: str, headers: Mapping[str, str], body: bytes = b""
) -> tuple[int, str]:
    connections = Connections()
    try:
        answer = connections.send(method, url, headers, body)
    except Unreachable as error:
        raise NoCredentials(f"none in the environment or the profile, and {error}") from error
    finally:
        connections.close()
    return answer.status, answer.body.decode(errors="replace")


def _epoch_s(text: str) -> float:
    if not text:
        return float("inf")
    moment = datetime.fromisoformat(
        text.replace("Z", "+00:00").split(".")[0].removesuffix("+00:00")
    )
    return moment.replace(tzinfo=timezone.utc).timestamp()
