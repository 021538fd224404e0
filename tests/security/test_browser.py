"""The front door against a real browser: pages of friends, of strangers, and those that a bucket or a function serves.

What a page is refused it cannot see; so the cloud is asked what happened to it, and the browser for the statuses.
"""

from __future__ import annotations

import io
import json
import zipfile
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.kinesis.live import LiveCloud
from tests.security.browser import Browser, Sites, bundle_sdk, find_chromium, sites

ROLE = "arn:aws:iam::000000000000:role/r"
SOURCE = (
    "def handler(event, context):\n"
    "    if 'rawPath' not in event:\n"
    "        return {'got': event}\n"
    "    with open(__file__.replace('index.py', 'page.html')) as page:\n"
    "        return {'statusCode': 200, 'headers': {'content-type': 'text/html'}, 'body': page.read()}\n"
)

# What can be asked of the cloud without the browser asking first, and some of the rest.
ATTACKS = """
const plain = {method: 'POST', mode: 'no-cors', headers: {'content-type': 'text/plain'}};
const scope = (service) => '?X-Amz-Credential=a%2F20200101%2Fus-east-1%2F' + service + '%2Faws4_request';
const tried = {};
async function attempt(name, doing) {
  try { const answer = await doing(); tried[name] = answer.type + ' ' + answer.status; }
  catch (error) { tried[name] = 'refused'; }
}
function form(action, fields, enctype) {
  const frame = document.createElement('iframe');
  frame.name = 'frame' + document.querySelectorAll('iframe').length;
  const sent = document.createElement('form');
  Object.assign(sent, {action, method: 'POST', target: frame.name, enctype: enctype || ''});
  for (const [name, value] of Object.entries(fields)) {
    const field = document.createElement('input');
    Object.assign(field, {name, value, type: 'hidden'});
    sent.append(field);
  }
  document.body.append(frame, sent);
  return new Promise((loaded) => { frame.onload = () => loaded({type: 'form', status: 0}); sent.submit(); });
}
function image(url) {
  return new Promise((loaded) => {
    const shown = new Image();
    shown.onload = () => loaded({type: 'image', status: 'shown'});
    shown.onerror = () => loaded({type: 'image', status: 'broken'});
    shown.src = url;
  });
}
function frame(url) {
  return new Promise((loaded) => {
    const shown = document.createElement('iframe');
    shown.onload = () => loaded({type: 'frame', status: 0});
    shown.src = url;
    document.body.append(shown);
  });
}
const template = JSON.stringify({Resources: {Q: {Type: 'AWS::SQS::Queue', Properties: {QueueName: 'evil'}}}});
await attempt('create', () => fetch(cloud + '/2015-03-31/functions', {...plain, body: evilFunction}));
await attempt('invoke', () => fetch(cloud + '/2015-03-31/functions/web/invocations', {...plain, body: '{}'}));
await attempt('stack', () => form(cloud + '/', {
  Action: 'CreateStack', Version: '2010-05-15', StackName: 'evil', TemplateBody: template}));
await attempt('user', () => form(cloud + '/', {Action: 'CreateUser', Version: '2010-05-08', UserName: 'evil'}));
await attempt('userByScope', () => fetch(
  cloud + '/' + scope('iam') + '&Action=CreateUser&Version=2010-05-08&UserName=evil2', {...plain, body: ''}));
await attempt('userByImage', () => image(
  cloud + '/' + scope('iam') + '&Action=CreateUser&Version=2010-05-08&UserName=evil3'));
await attempt('application', () => fetch(cloud + '/applications' + scope('emr-serverless'), {
  ...plain, body: JSON.stringify({name: 'evil', releaseLabel: 'emr-7.0.0', type: 'SPARK', clientToken: 'x'})}));
await attempt('fault', () => fetch(cloud + '/_headrace/faults', {
  ...plain, body: JSON.stringify({fault: 'latency', latency_ms: 1, service: 'glue'})}));
await attempt('faultByForm', () => form(cloud + '/_headrace/faults', {'{"fault":"drop","x': '"}'}, 'text/plain'));
await attempt('record', () => fetch(cloud + '/', {
  method: 'POST', body: JSON.stringify({StreamName: 'web', PartitionKey: 'k', Data: 'ZXZpbA=='}),
  headers: {'content-type': 'application/x-amz-json-1.1', 'x-amz-target': 'Kinesis_20131202.PutRecord'}}));
await attempt('clear', () => fetch(cloud + '/_headrace/faults', {method: 'DELETE'}));
await attempt('object', () => fetch(cloud + '/web/evil', {method: 'PUT', body: 'evil'}));
await attempt('read', () => fetch(cloud + '/_headrace/health'));
await attempt('frame', () => frame(cloud + '/_headrace/'));
"""

# Beside the attacks: what a document may do that has its host's origin.
OWN_ORIGIN = """
const can = {origin: window.origin};
for (const [name, doing] of Object.entries({
  storage: () => localStorage.length,
  cookie: () => document.cookie,
  worker: () => { if (!navigator.serviceWorker) throw new Error('none'); return true; },
  parent: () => { const shown = open('/_headrace/'); return shown.document.body.innerHTML; },
})) {
  try { doing(); can[name] = true; } catch (error) { can[name] = false; }
}
await attempt('image', () => image('shown.svg'));
tried.can = can;
window.result = tried;
"""


class Lab:
    """A cloud with something of each kind, sites with a page of attacks, and a browser."""

    def __init__(self, cloud: LiveCloud, served: Sites, browser: Browser) -> None:
        self.cloud, self.sites, self.browser = cloud, served, browser
        self.endpoint = f"http://127.0.0.1:{cloud.port}"
        evil_function = json.dumps(
            {"FunctionName": "evil", "Runtime": "python3.12", "Role": ROLE, "Handler": "index.handler",
             "Code": {"ZipFile": b64encode(package("")).decode()}}
        )  # fmt: skip
        self._seen = 0
        self.attacks = f"const evilFunction = {json.dumps(evil_function)};\n{ATTACKS}"

    def harm(self) -> set[str]:
        """Return what attacks have left in the cloud, and take it away."""
        found: set[str] = set()
        functions = self.cloud.client("lambda")
        if {f["FunctionName"] for f in functions.list_functions()["Functions"]} != {"web"}:
            found.add("create")
            functions.delete_function(FunctionName="evil")
        stacks = self.cloud.client("cloudformation")
        if stacks.describe_stacks()["Stacks"]:
            found.add("stack")
            stacks.delete_stack(StackName="evil")
            gone = stacks.get_waiter("stack_delete_complete")
            gone.wait(StackName="evil", WaiterConfig={"Delay": 0.05, "MaxAttempts": 200})
        iam = self.cloud.client("iam")
        for user in iam.list_users()["Users"]:
            found.add(f"user {user['UserName']}")
            iam.delete_user(UserName=user["UserName"])
        serverless = self.cloud.client("emr-serverless")
        for application in serverless.list_applications(states=["CREATED"])["applications"]:
            found.add("application")
            serverless.delete_application(applicationId=application["id"])
        faults = self.cloud.cloud.gateway.faults
        if faults.rules:
            found.add("fault")
        faults.clear()
        records = self.records()
        if b"evil" in records[self._seen :]:
            found.add("record")
        self._seen = len(records)
        s3 = self.cloud.client("s3")
        if "evil" in [o["Key"] for o in s3.list_objects_v2(Bucket="web")["Contents"]]:
            found.add("object")
        return found

    def records(self) -> list[bytes]:
        """Return what is in the stream."""
        kinesis = self.cloud.client()
        (shard,) = kinesis.list_shards(StreamName="web")["Shards"]
        iterator = kinesis.get_shard_iterator(
            StreamName="web", ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        return [r["Data"] for r in kinesis.get_records(ShardIterator=iterator)["Records"]]

    def page_of_attacks(self, path: str, cloud: str) -> None:
        """Put a page of attacks on the sites."""
        self.sites.html(path, f"const cloud = '{cloud}';\n{self.attacks}\nwindow.result = tried;")


def package(page: str) -> bytes:
    """Return a deployment package."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as zipped:
        zipped.writestr("index.py", SOURCE)
        zipped.writestr("page.html", page)
    return file.getvalue()


def document(attacks: str) -> str:
    """Return a document that attacks the host that it comes from, and has an image of its own."""
    script = f"const cloud = location.origin;\n{attacks}\n{OWN_ORIGIN}"
    # No module: XML documents have none.
    return f"<!doctype html><body><script>(async () => {{{script}}})();</script>"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    chromium = find_chromium()
    folder = tmp_path_factory.mktemp("browser")
    with sites() as served:
        allowed = (f"http://localhost:{served.port}", f"http://friend.test:{served.port}")
        with (
            Browser(chromium, folder / "profile") as browser,
            LiveCloud(folder / "data", allow_origins=allowed) as cloud,
        ):
            cloud.cloud.moto.warm_up()
            lab = Lab(cloud, served, browser)
            furnish(lab)
            served.pages["/sdk.js"] = ("text/javascript", bundle_sdk(folder))
            application = f"window.endpoint = '{lab.endpoint}'; await import('/sdk.js');"
            served.html("/app", application + "window.result;")
            lab.page_of_attacks("/attack", lab.endpoint)
            yield lab


def furnish(lab: Lab) -> None:
    """Make a stream, a function with a URL, a delivery stream and a bucket, each called `web`."""
    cloud, page = lab.cloud, document(lab.attacks)
    cloud.client().create_stream(StreamName="web", ShardCount=1)
    s3 = cloud.client("s3")
    s3.create_bucket(Bucket="web")
    rule = {"AllowedMethods": ["GET", "PUT"], "AllowedHeaders": ["*"], "ExposeHeaders": ["etag"],
            "AllowedOrigins": [f"http://localhost:{lab.sites.port}"]}  # fmt: skip
    s3.put_bucket_cors(Bucket="web", CORSConfiguration={"CORSRules": [rule]})
    xhtml = page.replace("<!doctype html><body>", "").replace("&", "&amp;").replace("=>", "=&gt;")
    root = '<html xmlns="http://www.w3.org/1999/xhtml"><body>'
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="9" height="9"/></svg>'
    for key, kind, body in (
        ("attack.html", "text/html", page),
        ("attack.xhtml", "application/xhtml+xml", f"{root}{xhtml}</body></html>"),
        ("shown.svg", "image/svg+xml", svg),
    ):
        s3.put_object(Bucket="web", Key=key, Body=body.encode(), ContentType=kind)
    functions = cloud.client("lambda")
    functions.create_function(
        FunctionName="web", Runtime="python3.12", Role=ROLE, Handler="index.handler",
        Code={"ZipFile": package(page)}, Timeout=20,
    )  # fmt: skip
    functions.create_function_url_config(FunctionName="web", AuthType="NONE")
    functions.add_permission(
        FunctionName="web", StatementId="url", Action="lambda:InvokeFunctionUrl", Principal="*",
        FunctionUrlAuthType="NONE",
    )  # fmt: skip
    cloud.client("firehose").create_delivery_stream(
        DeliveryStreamName="web",
        S3DestinationConfiguration={
            "RoleARN": ROLE,
            "BucketARN": "arn:aws:s3:::web",
            "Prefix": "f/",
        },
    )


def refused(seen: dict[str, Any], lab: Lab, url: str) -> set[int]:
    """Return the statuses of the cloud's answers to what the page at `url` asked for, but its own image."""
    return {
        status
        for asked, status in seen["answers"].items()
        if f":{lab.cloud.port}/" in asked
        and asked != f"GET {url}"
        and not asked.endswith("shown.svg")
    }


# --- friends ------------------------------------------------------------------------------------


def test_aws_sdk_works_in_a_page_of_an_allowed_origin(lab: Lab):
    seen = lab.browser.open(lab.sites.url("localhost", "/app"))
    result = seen["result"]
    assert result["kinesis"] == {
        "put": "shardId-000000000000", "requestId": result["kinesis"]["requestId"], "got": ["from a page"],
    }, seen  # fmt: skip
    assert result["kinesis"]["requestId"]
    assert result["refusal"] == "ResourceNotFoundException"
    assert result["invoke"] == {"payload": {"got": {"from": "a page"}}, "log": "string"}
    assert result["firehose"] == "string"
    assert result["s3"]["text"] == "from a page"
    assert result["s3"]["etag"]


def test_aws_sdk_works_in_no_other_page(lab: Lab):
    before = lab.records()
    seen = lab.browser.open(lab.sites.url("evil.test", "/app"))
    for name in ("kinesis", "refusal", "invoke", "firehose", "s3"):
        assert "Failed to fetch" in seen["result"][name] or seen["result"][name] == "TypeError"
    assert lab.records() == before


# --- strangers ----------------------------------------------------------------------------------


def test_a_page_of_another_origin_does_no_harm(lab: Lab):
    for name in ("evil.test", "127.0.0.1"):
        url = lab.sites.url(name, "/attack")
        seen = lab.browser.open(url)
        assert "error" not in seen
        assert lab.harm() == set()
        assert refused(seen, lab, url) == {403}
        result = seen["result"]
        assert {result[n] for n in ("record", "clear", "object", "read")} == {"refused"}
        assert result["userByImage"] == "image broken"


def test_the_same_page_of_an_allowed_origin_does_it_all(lab: Lab):
    """So that the tests around it can fail: the attacks are good ones."""
    seen = lab.browser.open(lab.sites.url("friend.test", "/attack"))
    harm = lab.harm()
    assert {"create", "stack", "user evil", "user evil2", "application", "record"} <= harm
    # The bucket has rules of its own, and they do not name this friend.
    assert "object" not in harm
    assert seen["result"]["read"] == "cors 200"


def test_a_name_that_was_led_here_is_not_answered(lab: Lab):
    for path in ("/_headrace/health", "/web/attack.html"):
        seen = lab.browser.open(f"http://rebind.test:{lab.cloud.port}{path}")
        assert seen["status"] == 421
        assert "--allow-host rebind.test" in seen["text"]


# --- documents of the cloud's own origin --------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "key"),
    [
        ("127.0.0.1", "attack.html"),
        ("localhost", "attack.xhtml"),
        pytest.param("127.0.0.1", "attack.xhtml", marks=pytest.mark.slow),
        pytest.param("localhost", "attack.html", marks=pytest.mark.slow),
    ],
)
def test_a_document_in_a_bucket_has_no_origin_and_does_no_harm(lab: Lab, key: str, host: str):
    url = f"http://{host}:{lab.cloud.port}/web/{key}"
    seen = lab.browser.open(url)
    assert lab.harm() == set()
    assert refused(seen, lab, url) == {403}, seen
    assert seen["result"]["can"] == {
        "origin": "null", "storage": False, "cookie": False, "worker": False, "parent": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    "key", ["attack.html", pytest.param("attack.xhtml", marks=pytest.mark.slow)]
)
def test_on_the_buckets_own_host_it_has_one_and_does_no_harm(lab: Lab, key: str):
    url = f"http://web.s3.localhost:{lab.cloud.port}/{key}"
    seen = lab.browser.open(url)
    assert lab.harm() == set()
    assert refused(seen, lab, url) == {403}, seen
    assert seen["result"]["can"]["origin"] == f"http://web.s3.localhost:{lab.cloud.port}"
    assert seen["result"]["can"]["storage"]
    assert seen["result"]["image"] == "image shown"


def test_a_page_of_a_function_does_no_harm(lab: Lab):
    url = lab.cloud.client("lambda").get_function_url_config(FunctionName="web")["FunctionUrl"]
    seen = lab.browser.open(url)
    assert lab.harm() == set()
    assert refused(seen, lab, url) == {403}, seen
    assert seen["result"]["can"]["origin"] == "null"
    # On a host of its own it has an origin, and nobody else there: whatever it asks for, it asks itself.
    host = f"{url.rstrip('/').rpartition('/')[2]}.lambda-url.us-east-1.localhost:{lab.cloud.port}"
    alone = lab.browser.open(f"http://{host}/")
    assert lab.harm() == set()
    assert alone["result"]["can"]["origin"] == f"http://{host}"


def test_the_clouds_pages_are_shown_as_they_are_meant(lab: Lab):
    for path in ("/_headrace/", "/_headrace/emr", "/_headrace/nowhere"):
        seen = lab.browser.open(f"{lab.endpoint}{path}")
        assert seen["status"] in (200, 404)
        assert not [said for said in seen["said"] if "Content Security Policy" in said]
