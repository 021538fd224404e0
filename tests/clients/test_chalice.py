"""chalice, AWS's framework: `chalice deploy` of an application, its requests, a second deployment, its end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import ServerProcess

APP = """
from chalice import AuthResponse, Chalice, NotFoundError, Response

app = Chalice(app_name="cities")

@app.authorizer()
def door(request):
    return AuthResponse(routes=["*"] if request.token == "allow" else [], principal_id="u")

@app.route("/")
def index():
    return {"version": 1}

@app.route("/cities/{name}", methods=["GET", "PUT"], cors=True)
def city(name):
    request = app.current_request
    if name == "nowhere":
        raise NotFoundError(name)
    return {"name": name, "method": request.method, "query": request.query_params}

@app.route("/secret", authorizer=door)
def secret():
    return app.current_request.context["authorizer"]["principalId"]

@app.route("/binary", methods=["POST"], content_types=["application/octet-stream"])
def binary():
    headers = {"Content-Type": "application/octet-stream"}
    return Response(body=app.current_request.raw_body[::-1], headers=headers)
"""


def chalice(server: ServerProcess, folder: Path, *arguments: str) -> str:
    environment = {
        **os.environ,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": server.endpoint_url,
    }
    done = subprocess.run(
        [sys.executable, "-c", "from chalice.cli import main; main()", *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def ask(url: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Any:
    request = urllib.request.Request(url, body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read(), error.headers


@pytest.mark.slow
def test_an_application_is_deployed_changed_and_deleted(server: ServerProcess, tmp_path: Path):
    (tmp_path / ".chalice").mkdir()
    config = {
        "version": "2.0",
        "app_name": "cities",
        "stages": {"dev": {"api_gateway_stage": "api"}},
    }
    (tmp_path / ".chalice" / "config.json").write_text(json.dumps(config))
    (tmp_path / "requirements.txt").write_text("")
    (tmp_path / "app.py").write_text(APP)
    assert "Rest API URL" in chalice(server, tmp_path, "deploy")
    deployed = json.loads((tmp_path / ".chalice" / "deployed" / "dev.json").read_text())
    (api_id,) = (each["rest_api_id"] for each in deployed["resources"] if "rest_api_id" in each)
    url = f"{server.endpoint_url}/_aws/execute-api/{api_id}/api"
    assert json.loads(ask(f"{url}/")[1]) == {"version": 1}
    city = {"name": "rome", "method": "PUT", "query": {"x": "1"}}
    assert json.loads(ask(f"{url}/cities/rome?x=1", "PUT")[1]) == city
    assert ask(f"{url}/cities/nowhere")[0] == 404
    assert [ask(f"{url}/secret", Authorization=token)[0] for token in ("deny", "allow")] == [
        403,
        200,
    ]
    assert ask(f"{url}/secret")[0] == 401
    binary = {"Content-Type": "application/octet-stream", "Accept": "application/octet-stream"}
    assert ask(f"{url}/binary", "POST", b"a\xff", **binary)[1] == b"\xffa"
    assert ask(f"{url}/cities/rome", "OPTIONS")[2]["Access-Control-Allow-Origin"] == "*"
    (tmp_path / "app.py").write_text(
        APP.replace('"version": 1', '"version": 2').replace("/secret", "/hidden")
    )
    chalice(server, tmp_path, "deploy")
    assert json.loads(ask(f"{url}/")[1]) == {"version": 2}
    assert (ask(f"{url}/secret")[0], ask(f"{url}/hidden")[0]) == (403, 401)
    chalice(server, tmp_path, "delete")
    assert server.client("apigateway").get_rest_apis()["items"] == []
