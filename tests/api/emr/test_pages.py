"""The status page: what it shows, and what it does not let through."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from headrace.aws.calls.http import HttpRequest, HttpResponse
from tests.api.emr.conftest import LOGS, Lab
from tests.support.emr import cluster_request
from tests.support.history_home import make_event_log, make_history_home
from tests.support.server import wait_until

STATUS = "/_headrace/emr"
NASTY = "<script>alert('x')</script>"


def _get(lab: Lab, path: str, query: str = "", **headers: str) -> HttpResponse:
    return lab.cloud.handle(HttpRequest("GET", path, query, headers))


def _text(answer: HttpResponse) -> str:
    assert isinstance(answer.body, bytes)
    return answer.body.decode()


def _html(lab: Lab, path: str, query: str = "") -> str:
    answer = _get(lab, path, query)
    assert answer.status == 200
    assert dict(answer.headers)["Content-Type"] == "text/html; charset=utf-8"
    return _text(answer)


def _json(lab: Lab, path: str) -> Any:
    answer = _get(lab, path, "format=json")
    assert answer.status == 200
    return json.loads(_text(answer))


def _folder(lab: Lab, *path: str) -> Path:
    return lab.cloud.cloud.config.data_dir.joinpath("emr", *path)


class _Elements(HTMLParser):
    """Checks that elements are closed in the order they were opened; collects links."""

    VOID = frozenset({"meta", "br", "link"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def _elements(text: str) -> _Elements:
    parser = _Elements()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser


def test_shows_clusters_and_steps_with_states_and_failures(lab: Lab) -> None:
    cluster = lab.cluster(lab.step("bash", "-c", "echo broken >&2; exit 3"))
    [step] = lab.steps(cluster)
    lab.ended(cluster, step["Id"])
    lab.until(cluster, "WAITING")
    text = _html(lab, STATUS)
    for shown in (cluster, "a cluster", "WAITING", step["Id"], "a step", "FAILED", "broken"):
        assert shown in text
    assert f'href="{STATUS}/{cluster}/{step["Id"]}/stderr"' in text


def test_is_one_document_without_scripts_and_without_anything_from_elsewhere(lab: Lab) -> None:
    cluster = lab.cluster(lab.step("true"))
    [step] = lab.steps(cluster)
    lab.ended(cluster, step["Id"])
    for path in (STATUS, f"{STATUS}/{cluster}", f"{STATUS}/{cluster}/{step['Id']}"):
        text = _html(lab, path)
        assert "<script" not in text
        assert "url(" not in text
        for link in _elements(text).links:
            assert link.startswith("/_headrace/")


def test_what_users_named_is_shown_as_text(lab: Lab) -> None:
    step = {**lab.step("bash", "-c", f'echo "{NASTY}" >&2; exit 1', NASTY), "Name": NASTY}
    cluster = str(lab.emr.run_job_flow(**cluster_request(Name=NASTY, Steps=[step]))["JobFlowId"])
    [step] = lab.steps(cluster)
    lab.ended(cluster, step["Id"])
    for path in (STATUS, f"{STATUS}/{cluster}", f"{STATUS}/{cluster}/{step['Id']}"):
        text = _html(lab, path)
        assert "<script" not in text
        assert "&lt;script&gt;alert(" in text
        _elements(text)


def test_a_step_s_page_shows_the_ends_of_its_logs_while_it_runs(lab: Lab, tmp_path: Path) -> None:
    go = tmp_path / "go"
    command = f"echo begun; echo careful >&2; until [ -e {go} ]; do sleep 0.05; done"
    cluster = lab.cluster(lab.step("bash", "-c", command))
    [step] = lab.steps(cluster)
    path = f"{STATUS}/{cluster}/{step['Id']}"
    wait_until(lambda: _get(lab, f"{path}/stderr").body == b"careful\n", what="the log")
    text = _html(lab, path)
    assert "RUNNING" in text
    assert "begun" in text
    assert 'http-equiv="refresh"' in text
    log = _get(lab, f"{path}/stderr")
    assert dict(log.headers)["Content-Type"] == "text/plain; charset=utf-8"
    assert dict(log.headers)["X-Content-Type-Options"] == "nosniff"
    assert _text(log) == "careful\n"
    go.touch()
    lab.ended(cluster, step["Id"])
    assert 'http-equiv="refresh"' not in _html(lab, path)
    assert _text(_get(lab, f"{path}/stderr")) == "careful\n"


def test_of_a_long_log_the_last_mebibyte_is_shown_and_the_cut_is_said(lab: Lab) -> None:
    command = "head -c 1200000 /dev/zero | tr '\\0' x; echo end"
    cluster = lab.cluster(lab.step("bash", "-c", command))
    [step] = lab.steps(cluster)
    lab.ended(cluster, step["Id"])
    text = _text(_get(lab, f"{STATUS}/{cluster}/{step['Id']}/stdout"))
    first, _, rest = text.partition("\n")
    assert first == "[the first 151,428 bytes are not shown]"
    assert len(rest) == 1024 * 1024
    assert rest.endswith("xend\n")


def test_tells_machines_the_same(lab: Lab) -> None:
    cluster = lab.cluster(lab.step("false"), LogUri=f"s3://{LOGS}/x")
    [step] = lab.steps(cluster)
    lab.ended(cluster, step["Id"])
    found = _json(lab, STATUS)
    assert found["applications"] == []
    [shown] = found["clusters"]
    assert shown["id"] == cluster
    assert shown["steps"] == [_json(lab, f"{STATUS}/{cluster}/{step['Id']}")]
    [told] = shown["steps"]
    assert told["state"] == "FAILED"
    assert told["failure"]["Message"]
    assert told["log_uris"] == [f"s3://{LOGS}/x/{cluster}/steps/{step['Id']}/"]
    assert told["logs"]["stderr"].startswith("http://127.0.0.1:")
    assert told["spark"] == {"live": None, "applications": []}
    by_header = _get(lab, STATUS, accept="application/json")
    assert json.loads(_text(by_header))["clusters"][0]["id"] == cluster


def test_a_running_step_leads_to_its_spark_ui_and_an_ended_one_to_its_history(
    lab: Lab, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    cluster = lab.cluster(lab.step("bash", "-c", f"until [ -e {go} ]; do sleep 0.05; done"))
    [step] = lab.steps(cluster)
    lab.begun(cluster, step["Id"])
    folder = _folder(lab, cluster, step["Id"])
    (folder / "conf").mkdir()
    (folder / "conf" / "ui.log").write_text(
        "Successfully started service 'SparkUI' on port 40001.\n"
    )
    for name in ("local-1", "local-2"):
        (folder / "events" / f"eventlog_v2_{name}").mkdir(parents=True)
    history = f'href="{STATUS}/history/local-'
    text = _html(lab, STATUS)
    assert 'href="http://127.0.0.1:40001"' in text
    assert f'{history}1"' in text
    assert f'{history}2"' not in text
    go.touch()
    lab.ended(cluster, step["Id"])
    text = _html(lab, STATUS)
    assert "40001" not in text
    assert f'{history}2"' in text


def test_only_the_newest_steps_are_on_the_status_page(lab: Lab) -> None:
    cluster = lab.cluster(*(lab.step("true") for _ in range(12)))
    for step in lab.steps(cluster):
        lab.ended(cluster, step["Id"])
    assert "2 older steps" in _html(lab, STATUS)
    assert "older steps" not in _html(lab, f"{STATUS}/{cluster}")


NOWHERE = (
    "/j-NONE",
    "/{cluster}/s-NONE",
    "/{cluster}/{step}/secrets",
    "/{cluster}/{step}/pid",
    "/{cluster}/{step}/../{step}/stderr",
    "/{cluster}/..%2F..%2Fstate.sqlite",
    "/{cluster}/{step}/..%2F..%2F..%2Fstate.sqlite",
    "/{cluster}/{step}/%2e%2e/%2e%2e/lock",
    "/..",
    "/%2e%2e/lock",
    "/history/local-0",
    "/history/..%2F..%2Flock",
    "/history/../../lock",
)


def test_what_is_not_there_is_not_found_and_no_path_leads_out(lab: Lab) -> None:
    cluster = lab.cluster(lab.step("true"))
    [step] = lab.steps(cluster)
    lab.ended(cluster, step["Id"])
    for below in NOWHERE:
        path = STATUS + below.format(cluster=cluster, step=step["Id"])
        assert _get(lab, path).status == 404, path
        answer = _get(lab, path, "format=json")
        assert answer.status == 404, path
        assert json.loads(_text(answer))["message"]


def test_the_pages_are_for_reading_only(lab: Lab) -> None:
    assert lab.cloud.handle(HttpRequest("POST", STATUS)).status == 405


@pytest.mark.parametrize("path", ["/_headrace", "/_headrace/"])
def test_the_list_of_pages_leads_to_all_others(lab: Lab, path: str) -> None:
    links = ["/" + url.split("/", 3)[3] for url in _json(lab, path)["pages"]]
    assert STATUS in links
    for link in links:
        if link != f"{STATUS}/history":
            assert _get(lab, link).status == 200


def test_the_history_server_is_started_by_the_visit(
    lab: Lab, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_SPARK_HOME", str(make_history_home(tmp_path / "spark")))
    make_event_log(data_dir, "local-7")
    assert _json(lab, STATUS)["history"]["server"] is None
    answer = _get(lab, f"{STATUS}/history/local-7")
    server = _json(lab, STATUS)["history"]["server"]
    assert answer.status == 302
    assert dict(answer.headers)["Location"] == f"{server}/history/local-7/jobs/"
    assert dict(_get(lab, f"{STATUS}/history").headers)["Location"] == f"{server}/"


def test_without_a_history_server_a_visit_is_told_why(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_SPARK_HOME", str(tmp_path))
    answer = _get(lab, f"{STATUS}/history")
    assert answer.status == 503
    assert f"HEADRACE_SPARK_HOME ({tmp_path}) has no bin/spark-submit." in _text(answer)
