"""EMR Serverless on the status page, and the page that GetDashboardForJobRun leads to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.aws.calls.http import HttpRequest, HttpResponse
from tests.api.emr_serverless.conftest import BUCKET, Lab
from tests.support.cloud import InProcessCloud
from tests.support.server import wait_until

STATUS = "/_headrace/emr"
PATH = "/_headrace/emr-serverless"
NASTY = "<script>alert('x')</script>"


class Pages:
    """A cloud's pages, and a lab on it."""

    def __init__(self, cloud: InProcessCloud) -> None:
        self.cloud = cloud
        self.lab = Lab(cloud.client("emr-serverless"), cloud.client("s3"))
        self.lab.s3.create_bucket(Bucket=BUCKET)

    def get(self, path: str, query: str = "") -> HttpResponse:
        return self.cloud.handle(HttpRequest("GET", path, query))

    def text(self, path: str, query: str = "") -> str:
        answer = self.get(path, query)
        assert answer.status == 200
        assert isinstance(answer.body, bytes)
        return answer.body.decode()

    def json(self, path: str) -> Any:
        return json.loads(self.text(path, "format=json"))

    def folder(self, *path: str) -> Path:
        return self.cloud.cloud.config.data_dir.joinpath("emr-serverless", *path)


@pytest.fixture
def pages(data_dir: Path, spark_home: Path) -> Iterator[Pages]:
    with InProcessCloud(data_dir) as cloud:
        yield Pages(cloud)


def test_shows_applications_and_job_runs_with_states_and_reasons(pages: Pages) -> None:
    made = pages.lab.application()
    run = pages.lab.start(made, "echo broken >&2; exit 3")
    pages.lab.ended(made, run)
    text = pages.text(STATUS)
    for shown in (made, "STARTED", run, "FAILED", "broken"):
        assert shown in text
    assert f'href="{PATH}/{made}/{run}"' in text
    assert pages.text(f"{PATH}/{made}/{run}/stderr") == "broken\n"
    assert run in pages.text(f"{PATH}/{made}")


def test_what_users_named_is_shown_as_text(pages: Pages) -> None:
    made = pages.lab.application()
    run = pages.lab.start(made, f'echo "{NASTY}" >&2; exit 1', name="a<b>c")
    pages.lab.ended(made, run)
    for path in (STATUS, f"{PATH}/{made}", f"{PATH}/{made}/{run}"):
        text = pages.text(path)
        assert "<script" not in text
        assert "&lt;script&gt;alert(" in text
        assert "a&lt;b&gt;c" in text


def test_the_dashboard_leads_to_the_live_ui_and_then_to_the_history(
    pages: Pages, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    made = pages.lab.application()
    run = pages.lab.start(made, f"until [ -e {go} ]; do sleep 0.05; done")
    pages.lab.until(made, run, "RUNNING")
    folder = pages.folder(made, run, "1")
    (folder / "conf" / "ui.log").write_text(
        "Successfully started service 'SparkUI' on port 40001.\n"
    )
    (folder / "events" / "eventlog_v2_local-7").mkdir()
    url = pages.lab.emr.get_dashboard_for_job_run(applicationId=made, jobRunId=run)["url"]
    path = "/" + url.split("/", 3)[3]
    assert 'href="http://127.0.0.1:40001"' in pages.text(path)
    assert pages.json(path)["spark"]["live"] == "http://127.0.0.1:40001"
    go.touch()
    pages.lab.ended(made, run)
    text = pages.text(path)
    assert "40001" not in text
    assert f'href="{STATUS}/history/local-7"' in text
    [application] = pages.json(STATUS)["applications"]
    assert application["job_runs"] == [pages.json(path)]


def test_earlier_attempts_keep_their_logs_and_histories(pages: Pages, tmp_path: Path) -> None:
    made = pages.lab.application()
    count = tmp_path / "count"
    script = f"echo x >> {count}; echo attempt $(wc -l < {count}); false"
    run = pages.lab.start(made, script, retryPolicy={"maxAttempts": 2})
    pages.lab.ended(made, run)
    (pages.folder(made, run, "1", "events") / "eventlog_v2_local-1").mkdir()
    path = f"{PATH}/{made}/{run}"
    text = pages.text(path)
    assert f'href="{path}/stdout?attempt=1"' in text
    assert f'href="{STATUS}/history/local-1"' in text
    assert pages.text(f"{path}/stdout", "attempt=1") == "attempt 1\n"
    assert pages.text(f"{path}/stdout") == "attempt 2\n"
    assert pages.get(f"{path}/stdout", "attempt=3").status == 404
    assert pages.get(f"{path}/stdout", "attempt=../1").status == 404


def test_a_deleted_application_s_event_logs_go_with_it(pages: Pages) -> None:
    made = pages.lab.application()
    run = pages.lab.start(made, "true")
    pages.lab.ended(made, run)
    (pages.folder(made, run, "1", "events") / "eventlog_v2_local-1").mkdir()
    pages.lab.emr.stop_application(applicationId=made)
    wait_until(lambda: pages.lab.state(made) == "STOPPED")
    pages.lab.emr.delete_application(applicationId=made)
    assert pages.get(f"{STATUS}/history/local-1").status == 404


NOWHERE = (
    "/none",
    "/{made}/none",
    "/{made}/{run}/conf",
    "/{made}/{run}/..%2F..%2Flock",
    "/../lock",
)


def test_what_is_not_there_is_not_found_and_no_path_leads_out(pages: Pages) -> None:
    made = pages.lab.application()
    run = pages.lab.start(made, "true")
    pages.lab.ended(made, run)
    for below in NOWHERE:
        path = PATH + below.format(made=made, run=run)
        assert pages.get(path).status == 404, path


def test_a_job_run_of_another_application_is_not_found(pages: Pages) -> None:
    made, other = pages.lab.application(), pages.lab.application()
    run = pages.lab.start(made, "true")
    pages.lab.ended(made, run)
    assert pages.get(f"{PATH}/{other}/{run}").status == 404
