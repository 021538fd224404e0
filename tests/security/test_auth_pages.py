"""With --auth: the cloud's own pages and function URLs, and where the keys come from."""

from __future__ import annotations

from pathlib import Path

import pytest
from botocore.credentials import Credentials

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.signatures.access_keys import KeysRefused, read_keys, read_secrets, secrets_of
from headrace.client.pages import Keys, find_keys, signed_headers
from headrace.core.ids import Ids
from tests.security.auth_lab import Guarded, sign_at
from tests.security.conftest import body_of, header
from tests.support.clients import ENDPOINT_URL

# --- the cloud's own pages ------------------------------------------------------------------------


def test_pages_are_for_those_who_have_the_token_and_changes_for_those_who_have_a_key(
    guarded: Guarded,
):
    keys = guarded.cloud.cloud.keys
    assert keys is not None
    for method, path in (
        ("GET", "/_headrace/"),
        ("GET", "/_headrace/faults"),
        ("POST", "/_headrace/faults"),
    ):
        answer = guarded.ask(method, path)
        assert answer.status == 403
        assert "--auth" in body_of(answer)["message"]
    assert guarded.ask("GET", "/_headrace/?token=wrong").status == 403
    opened = guarded.ask("GET", f"/_headrace/emr?all&token={keys.page_token}")
    assert (opened.status, header(opened, "location")) == (303, "/_headrace/emr?all=")
    cookie = header(opened, "set-cookie") or ""
    assert "HttpOnly; SameSite=Strict" in cookie
    assert keys.page_token not in cookie
    held = {"cookie": f"a=b; {cookie.partition(';')[0]}"}
    assert guarded.ask("GET", "/_headrace/emr", held).status == 200
    assert guarded.ask("DELETE", "/_headrace/faults", held).status == 403
    own = Keys(guarded.key.id, guarded.key.secret)
    url = f"{ENDPOINT_URL}/_headrace/faults"
    assert (
        guarded.ask("DELETE", "/_headrace/faults", signed_headers(own, "DELETE", url)).status == 200
    )
    for keys_ in (Keys(guarded.key.id, "wrong"), Keys("nobody", guarded.key.secret)):
        assert (
            guarded.ask("DELETE", "/_headrace/faults", signed_headers(keys_, "DELETE", url)).status
            == 403
        )


def test_health_is_everybodys_but_not_where_the_data_are(guarded: Guarded):
    page = body_of(guarded.ask("GET", "/_headrace/health"))
    assert page["status"] == "ok"
    assert "data_dir" not in page
    assert guarded.ask("GET", "/_localstack/health").status == 200
    assert guarded.ask("POST", "/_headrace/health").status == 403
    own = Keys(guarded.key.id, guarded.key.secret)
    signed = signed_headers(own, "GET", f"{ENDPOINT_URL}/_headrace/health")
    assert "data_dir" in body_of(guarded.ask("GET", "/_headrace/health", signed))


def test_a_signature_for_a_service_is_none_for_the_pages(guarded: Guarded):
    request = HttpRequest("DELETE", "/_headrace/faults", "", {})
    sign_at(guarded, request, guarded.credentials(), "s3")
    assert guarded.cloud.handle(request).status == 403


def test_function_urls_ask_their_own_authtype(guarded: Guarded):
    path = "/_headrace/function-url/abcdef/"
    # Not signed: the URL judges, and there is none of that id.
    assert header(guarded.ask("GET", path), "x-amzn-errortype") == "AccessDeniedException"
    request = HttpRequest("GET", path, "", {})
    sign_at(guarded, request, Credentials(guarded.key.id, "wrong"), "lambda")
    answer = guarded.cloud.handle(request)
    assert (answer.status, header(answer, "x-amzn-errortype")) == (403, "InvalidSignatureException")


@pytest.mark.parametrize(
    ("path", "most_bytes"),
    [
        ("/_headrace/function-url/abcdef/", 6 * 2**20),
        ("/_aws/execute-api/abcdef/prod/", 10 * 2**20),
    ],
)
def test_a_resources_own_address_takes_bodies_of_aws_size(
    guarded: Guarded, path: str, most_bytes: int
):
    """Documented: Lambda's quotas of payloads, and API Gateway's of payloads."""
    refuse = guarded.cloud.cloud.entrance.refuse
    assert refuse("POST", f"{path}?", {"content-length": str(most_bytes)}) is None
    refusal = refuse("POST", f"{path}?", {"content-length": str(most_bytes + 1)})
    assert refusal is not None
    assert refusal.status == 413


# --- files of keys --------------------------------------------------------------------------------


def test_the_key_is_made_once_and_is_the_owners_alone(tmp_path: Path):
    made = secrets_of(tmp_path, Ids())
    assert secrets_of(tmp_path, Ids()) == made
    assert (tmp_path / "auth.json").stat().st_mode & 0o777 == 0o600
    (tmp_path / "auth.json").chmod(0o644)
    secrets_of(tmp_path, Ids())
    assert (tmp_path / "auth.json").stat().st_mode & 0o777 == 0o600
    assert read_secrets(tmp_path / "nowhere") is None
    assert made.secret_access_key not in repr(made)
    assert find_keys({}, tmp_path) == Keys(made.access_key_id, made.secret_access_key)
    (tmp_path / "auth.json").write_text("{")
    with pytest.raises(
        KeysRefused, match=r"auth\.json does not hold the keys of --auth; remove it"
    ):
        secrets_of(tmp_path, Ids())
    assert find_keys({}, tmp_path) is None


def test_keys_of_the_environment_come_first(tmp_path: Path):
    secrets_of(tmp_path, Ids())
    environment = {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "HEADRACE_DATA_DIR": str(tmp_path),
    }
    assert find_keys(environment) == Keys("a", "b")
    del environment["AWS_SECRET_ACCESS_KEY"]
    found = find_keys(environment)
    assert found is not None
    assert found.access_key.startswith("HRKA")


def test_a_file_of_keys_is_read_as_aws_reads_it(tmp_path: Path):
    path = tmp_path / "keys"
    path.write_text(
        "[default]\naws_access_key_id = A\naws_secret_access_key = s%1\n"
        "[other]\naws_access_key_id=B\naws_secret_access_key=t\naws_session_token=u\naws_account_id=111111111111\n"
    )
    first, second = read_keys(path)
    assert (first.id, first.secret, first.token, first.account) == ("A", "s%1", None, None)
    assert (second.id, second.token, second.account) == ("B", "u", "111111111111")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "lists no keys"),
        ("nonsense", "cannot be read: it is not a credentials file"),
        ("[a]\naws_access_key_id = x\n", "The profile a of"),
        ("[a]\naws_access_key_id=x\naws_secret_access_key=y\naws_account_id=7\n", "has 12 digits"),
    ],
)
def test_a_file_that_is_none_is_refused_in_a_sentence(tmp_path: Path, content: str, sentence: str):
    path = tmp_path / "keys"
    path.write_text(content)
    with pytest.raises(KeysRefused, match=sentence):
        read_keys(path)


def test_the_live_page_writes_with_the_login_and_its_token(guarded: Guarded):
    keys = guarded.cloud.cloud.keys
    assert keys is not None
    opened = guarded.ask("GET", f"/_headrace/?token={keys.page_token}")
    cookie = (header(opened, "set-cookie") or "").partition(";")[0]
    session = body_of(guarded.ask("GET", "/_headrace/api/session", {"cookie": cookie}))
    token = {"x-headrace-token": session["token"]}
    body = b'{"stream": "none", "partitionKey": "k", "data": "x"}'

    def put(headers: dict[str, str]) -> HttpResponse:
        return guarded.cloud.handle(
            HttpRequest("POST", "/_headrace/api/put", "", {**headers, "host": "127.0.0.1"}, body)
        )

    assert put(token).status == 403
    assert "X-Headrace-Token" in body_of(put({"cookie": cookie}))["message"]
    answer = put({"cookie": cookie, **token})
    assert (answer.status, body_of(answer)["code"]) == (404, "ResourceNotFoundException")
