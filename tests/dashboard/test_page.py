"""The page in a headless Chromium: every view with real data, and what it does with bad data and a server that goes.

HEADRACE_SCREENSHOTS=1 writes the pictures of docs/dashboard.md.
"""

from __future__ import annotations

import itertools
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.dashboard.browser import Page
from tests.dashboard.pipeline import HOSTILE, make_conversion, make_pipeline, notify, put_orders
from tests.dashboard.test_progress import PROGRESS, compress, log_of, write
from tests.support.server import ServerProcess

PICTURES = Path(__file__).parents[2] / "docs" / "dashboard"
# The view, its address, and a text that only its data brings.
VIEWS = (
    ("pipeline", "", "orders-to-lake"),
    ("map", "map", "price-check"),
    ("stream", "streams/orders", "at the end of every shard"),
    ("records", "streams/orders/records", "Arrived (UTC)"),
    ("lineage", "streams/orders/lineage", "Splits and merges"),
    ("function", "functions/price-check", "no price of"),
    ("delivery", "deliveries/orders-to-lake", "orders/20"),
    ("stack", "stacks/shop", "QueueUrl"),
    ("permissions", "permissions", "What AWS would deny"),
    ("export", "export", "enrich-iterator-age"),
    ("resource", "other/table:prices", "ARN"),
    ("more", "more", "Fidelity"),
)

# The rules of axe that look at colours, which alone differ in the dark.
OF_COLOURS = ["color-contrast", "link-in-text-block"]


def client_at(url: str, service: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )


@contextmanager
def traffic(url: str) -> Iterator[None]:
    """Put orders for as long as the block runs."""
    over = threading.Event()
    clients = {name: client_at(url, name) for name in ("kinesis", "events", "dynamodb")}

    def feed() -> None:
        for number in itertools.count():
            if over.wait(1):
                return
            put_orders(clients["kinesis"], 6)
            notify(clients.__getitem__, number)

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(30)


@pytest.fixture(scope="module")
def server(browser: Page, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("dashboard") / "data") as server:
        make_pipeline(lambda service: client_at(server.endpoint_url, service))
        make_conversion(lambda service: client_at(server.endpoint_url, service))
        with traffic(server.endpoint_url):
            yield server


def shoot(page: Page, name: str) -> None:
    """Write a picture of the page for the documentation, if asked for."""
    if os.environ.get("HEADRACE_SCREENSHOTS"):
        PICTURES.mkdir(exist_ok=True)
        page.do("eval", code="document.activeElement?.blur()")
        page.do("shot", path=str(PICTURES / f"{name}.png"))


def address(server: ServerProcess, path: str) -> str:
    return f"{server.endpoint_url}/_headrace/#/{path}"


@pytest.mark.parametrize(("name", "path", "text"), VIEWS)
def test_each_view_shows_its_data_without_serious_findings(
    server: ServerProcess, page: Page, name: str, path: str, text: str
) -> None:
    page.do("dark", on=False)
    page.visit(address(server, path), text)
    page.do("wait", text="live")
    if name == "records":
        page.do("click", selector="table.records tbody button")
        page.do("wait", text="Passport")
    if name in ("pipeline", "map", "stream"):
        page.do("holds", code="document.body.innerText.match(/[1-9][0-9.]*\\/s/) !== null")
    assert page.do("axe") == []
    shoot(page, name)
    page.do("dark", on=True)
    assert page.do("axe", rules=OF_COLOURS) == []
    if name in ("pipeline", "map"):
        shoot(page, f"{name}-dark")
    check_a_narrow_screen_scrolls_nothing_but_tables(page)
    assert page.do("said") == []


def check_a_narrow_screen_scrolls_nothing_but_tables(page: Page) -> None:
    page.do("size", width=390, height=800)
    try:
        page.do("holds", code="document.documentElement.scrollWidth <= 390")
    finally:
        page.do("size", width=1280, height=860)


def test_what_fails_comes_first_as_soon_as_it_fails(server: ServerProcess, page: Page) -> None:
    page.visit(address(server, ""), "orders-to-lake")
    # The mapping and its function fail; the function does so only by its live figures.
    page.do(
        "holds",
        code="""(() => {
          const rows = [...document.querySelectorAll('table.resources tbody tr')];
          const bad = rows.map((row) => row.classList.contains('bad'));
          return bad.filter(Boolean).length >= 2 && bad.lastIndexOf(true) < bad.indexOf(false);
        })()""",
    )


def test_keys_filter_choose_and_go_back(server: ServerProcess, page: Page) -> None:
    page.visit(address(server, ""), "orders-to-lake")
    page.do("press", key="/")
    assert page.do("eval", code="document.activeElement.id") == "filter"
    page.do("fill", selector="#filter", text="clicks")
    page.do("holds", code="document.querySelectorAll('.rowlink').length === 1")
    page.do("eval", code="document.activeElement.blur()")
    page.do("press", key="j")
    page.do("press", key="Enter")
    page.do("wait", text="Hash ranges and heat")
    page.do("press", key="Escape")
    page.do("wait", text="Pipeline")
    page.do("press", key="m")
    page.do("wait", text="Choose a node")
    page.do("press", key="t")
    assert page.do("eval", code="document.documentElement.dataset.theme") == "light"
    page.do("eval", code="localStorage.clear()")


def test_payloads_are_text_never_markup(server: ServerProcess, page: Page) -> None:
    page.visit(address(server, "streams/clicks/records"), "cut character")
    assert HOSTILE in page.text()
    assert page.do("eval", code="document.querySelectorAll('main img, main script').length") == 0
    row = "[...document.querySelectorAll('table.records tbody tr')].find((row) => row.innerText.includes('number'))"
    page.do("eval", code=f"{row}.querySelector('button').click()")
    page.do("wait", text='"id": 12345678901234567890,')
    page.do("wait", text='"price": 27.0')
    page.do("eval", code=f"{row}.querySelector('button').click()")
    count = page.do("eval", code="document.querySelectorAll('table.records tbody button').length")
    for number in range(count):
        code = f"document.querySelectorAll('table.records tbody tr:not(.detail) button.plain')[{number}].click()"
        page.do("eval", code=code)
        page.do("wait", text="Sequence number")
        page.do("eval", code=code)
    assert page.do("said") == []


def test_a_record_is_put_and_a_shard_split_from_the_page(server: ServerProcess, page: Page) -> None:
    page.visit(address(server, "streams/clicks"), "Put a record")
    page.do("click", selector="summary")
    page.do("click", selector="form button.main")
    page.do("wait", text="Put into shard 0")
    page.do("click", selector=".actions button")
    page.do("wait", text="is split in its middle")
    page.do("wait", text="2 open shards")
    assert page.do("said") == []


def test_failed_records_are_put_again_and_a_file_is_a_table(
    server: ServerProcess, page: Page
) -> None:
    page.visit(address(server, "deliveries/words"), "DataFormatConversion.MalformedData")
    page.do("click", selector="main section details button.main")
    page.do("wait", text="1 record put again to firehose:words")
    page.do("wait", text="1 put again")
    page.do("holds", code="document.querySelector('td button.plain code') !== null")
    page.do("click", selector="td button.plain")
    page.do("wait", text="2 rows")
    page.do("wait", text="pear")
    assert page.do("axe") == []
    assert page.do("said") == []


def test_a_record_s_passport_is_a_path_through_the_map(server: ServerProcess, page: Page) -> None:
    page.visit(address(server, "streams/orders/records"), "Arrived (UTC)")
    # An old record: its batches are over, and it has failed in one function.
    page.do("eval", code="document.querySelector('form.ask select').value = 'oldest'")
    change = "new Event('change', {bubbles: true})"
    page.do("eval", code=f"document.querySelector('form.ask select').dispatchEvent({change})")
    page.do("click", selector="form.ask button.main")
    page.do("click", selector="table.records tbody button")
    path = '[aria-label="Path of the record through the map"]'
    page.do("holds", code=f"document.querySelectorAll(`{path} .node`).length >= 4")
    names = page.do("eval", code=f"document.querySelector(`{path}`).textContent")
    for name in ("orders", "enrich", "price-check", "orders-to-lake"):
        assert name in names
    page.do("holds", code=f"document.querySelector(`{path} .flow.ok`) !== null")
    page.do("holds", code=f"document.querySelector(`{path} .flow.bad`) !== null")
    assert "clicks" not in names
    page.do("dark", on=False)
    page.do("eval", code=f"document.querySelector(`{path}`).scrollIntoView({{block: 'center'}})")
    shoot(page, "passport")
    assert page.do("axe") == []
    assert page.do("said") == []


def test_a_job_shows_its_queries_batches(server: ServerProcess, page: Page) -> None:
    emr = client_at(server.endpoint_url, "emr")
    jar = {"Jar": "command-runner.jar", "Args": ["bash", "-c", "true"]}
    cluster = emr.run_job_flow(
        Name="jobs",
        ReleaseLabel="emr-7.13.0",
        Instances={
            "MasterInstanceType": "m5.xlarge",
            "InstanceCount": 1,
            "KeepJobFlowAliveWhenNoSteps": True,
        },
        JobFlowRole="EMR_EC2_DefaultRole",
        ServiceRole="EMR_DefaultRole",
        Steps=[{"Name": "delays", "ActionOnFailure": "CONTINUE", "HadoopJarStep": jar}],
    )["JobFlowId"]
    step = emr.list_steps(ClusterId=cluster)["Steps"][0]["Id"]
    # The step makes its folder anew when it begins.
    emr.get_waiter("step_complete").wait(
        ClusterId=cluster, StepId=step, WaiterConfig={"Delay": 1, "MaxAttempts": 60}
    )
    write(server.data_dir / "emr" / cluster / step, compress(log_of(PROGRESS)))
    page.visit(address(server, f"jobs/{cluster}/{step}"), "Query delays")
    text = page.text()
    for one in ("2013-01-01 03:59:00", "21.8 s", "2.7/s", "State rows"):
        assert one in text
    assert page.do("axe") == []
    shoot(page, "job")
    assert page.do("said") == []


def test_a_pasted_schema_decodes_records(server: ServerProcess, page: Page) -> None:
    kinesis = client_at(server.endpoint_url, "kinesis")
    kinesis.create_stream(StreamName="avro", ShardCount=1)
    kinesis.get_waiter("stream_exists").wait(StreamName="avro", WaiterConfig={"Delay": 1})
    kinesis.put_record(StreamName="avro", Data=b"\x08pear\xf6\x01", PartitionKey="good")
    schema = """{"type": "record", "name": "Sale", "fields": [
        {"name": "fruit", "type": "string"}, {"name": "count", "type": "long"}]}"""
    page.visit(address(server, "streams/avro/records"), "Arrived (UTC)")
    page.do("click", selector="details.schema summary")
    page.do("fill", selector="details.schema textarea", text=schema)
    page.do("click", selector="details.schema button.main")
    page.do("click", selector="table.records tbody button")
    page.do("wait", text='"fruit": "pear",')
    page.do("wait", text='"count": 123')
    assert page.do("axe") == []
    assert page.do("said") == []
    page.do("eval", code="localStorage.clear()")


@pytest.mark.parametrize(
    ("resource", "command", "call"),
    [
        (
            "rule:shop%2Fsold-out",
            "aws events describe-rule --name sold-out --event-bus-name shop",
            'boto3.client("events").describe_rule(Name="sold-out", EventBusName="shop")',
        ),
        (
            "bucket:lake",
            "aws s3api head-bucket --bucket lake",
            'boto3.client("s3").head_bucket(Bucket="lake")',
        ),
        (
            "bus:shop",
            "aws events describe-event-bus --name shop",
            'boto3.client("events").describe_event_bus(Name="shop")',
        ),
    ],
)
def test_a_resource_is_copied_as_commands(
    server: ServerProcess, page: Page, resource: str, command: str, call: str
) -> None:
    page.visit(address(server, f"other/{resource}"), "Copy as AWS CLI")
    page.do(
        "eval", code="navigator.clipboard.writeText = async (text) => { window.copied = text; }"
    )
    copied: list[str] = []
    for label in ("AWS CLI", "boto3"):
        button = f"[...document.querySelectorAll('button')].find((b) => b.innerText === 'Copy as {label}')"
        page.do("eval", code=f"{button}.click()")
        copied.append(page.do("eval", code="window.copied"))
    assert copied == [command, call]
    assert page.do("axe") == []
    assert page.do("said") == []


def test_a_timeline_bar_sets_the_position(server: ServerProcess, page: Page) -> None:
    page.visit(address(server, "streams/orders/records"), "Arrived (UTC)")
    page.do("holds", code="document.querySelector('.bar:not([disabled])') !== null")
    page.do("eval", code="document.querySelector('.bar:not([disabled])').click()")
    page.do("holds", code="document.querySelector('form.ask select').value === 'time'")


def test_a_browser_whose_clock_stands_elsewhere_sees_the_arrivals(
    server: ServerProcess, page: Page
) -> None:
    page.visit(address(server, ""), "orders-to-lake")
    page.do("eval", code="{ const real = Date.now; Date.now = () => real() - 86_400_000; }")
    # The next event of the server tells the time.
    library = "import('/_headrace/dashboard/lib.js')"
    page.do("holds", code=f"{library}.then((lib) => lib.serverNow() - Date.now() > 80_000_000)")
    page.do("eval", code="location.hash = '#/streams/orders/records'")
    page.do("holds", code="document.querySelector('.bar:not([disabled])') !== null")
    assert page.do("said") == []


def test_a_stream_deleted_while_it_is_watched_is_named(server: ServerProcess, page: Page) -> None:
    kinesis = client_at(server.endpoint_url, "kinesis")
    kinesis.create_stream(StreamName="short", ShardCount=1)
    kinesis.get_waiter("stream_exists").wait(StreamName="short", WaiterConfig={"Delay": 1})
    page.visit(address(server, "streams/short"), "Hash ranges and heat")
    kinesis.delete_stream(StreamName="short")
    page.do("wait", text="Stream short under account")
    page.do("said")  # the browser itself logs the 404


def test_a_server_that_goes_away_and_comes_back(tmp_path: Path, page: Page) -> None:
    with ServerProcess(tmp_path / "data") as server:
        client_at(server.endpoint_url, "kinesis").create_stream(StreamName="kept", ShardCount=1)
        page.visit(address(server, ""), "kept")
        page.do("wait", text="live")
        port = server.port
        server.kill9()
        page.do("wait", text="server away")
        again = ServerProcess(tmp_path / "data", "--port", str(port))
        with again:
            page.do("holds", code="document.querySelector('.link').innerText === 'live'")
            assert "kept" in page.text()
    page.do("said")


@pytest.mark.parametrize(("path", "text"), [("", "orders-to-lake"), ("other/table:prices", "ARN")])
def test_until_the_first_list_arrives_the_page_says_that_it_loads(
    server: ServerProcess, page: Page, path: str, text: str
) -> None:
    page.do("anew")
    page.do("size", width=400, height=800)
    page.do(
        "init",
        code="""(() => {
          const real = fetch, held = new Promise((done) => { window.letGo = done; });
          window.fetch = async (...given) => {
            if (given[0].endsWith('/resources')) { window.isHeld = true; await held; }
            return real(...given);
          };
        })()""",
    )
    page.visit(address(server, path), "Loading the resources")
    page.do("holds", code="window.isHeld")
    shown = page.text()
    for claim in ("Nothing here yet", "0 resources", "none failing", "There is no"):
        assert claim not in shown
    assert page.do("eval", code="document.documentElement.scrollWidth") <= 400
    assert page.do("axe") == []
    page.do("eval", code="window.letGo()")
    page.do("wait", text=text)
    assert "Loading the resources" not in page.text()
    assert page.do("said") == []
    page.do("anew")


def test_the_empty_page_says_the_next_command(tmp_path: Path, page: Page) -> None:
    with ServerProcess(tmp_path / "data") as server:
        page.visit(address(server, ""), "kinesis create-stream")
        assert page.do("axe") == []
        page.do("said")


def test_with_auth_the_printed_address_logs_in(tmp_path: Path, page: Page) -> None:
    with ServerProcess(tmp_path / "data", "--auth") as server:
        page.do("open", url=address(server, ""))
        assert "KeyNeeded" in page.do("eval", code="document.body.innerText")
        page.do("said")
        printed = re.search(r"its pages: (\S+)", (server.data_dir / "headrace.log").read_text())
        assert printed is not None
        page.do("open", url=printed[1])
        page.do("wait", text="kinesis create-stream")
        page.do("wait", text="live")
        # The address holds no secret any more.
        assert page.do("eval", code="location.search") == ""
        page.do("wait", text="0 resources")
        assert page.do("said") == []
