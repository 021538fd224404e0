"""The pipeline's Lambda function: hands records on to a second stream, and fails in all the ways a function may.

Runs in the function's process, with nothing but the standard library, so that it starts quickly. It tells the
test's ledger what it did, by a line of JSON on a socket, before it answers the cloud.
"""

import base64
import http.client
import json
import os
import random
import socket
import time
import urllib.parse

TARGET = {"PutRecords": "Kinesis_20131202", "PutItem": "DynamoDB_20120810"}
SCOPE = {"PutRecords": "kinesis", "PutItem": "dynamodb"}
GIVE_UP_S = 50.0

_endpoint = urllib.parse.urlsplit(os.environ["AWS_ENDPOINT_URL"])
_connection = http.client.HTTPConnection(_endpoint.hostname, _endpoint.port, timeout=30)
_ledger = socket.create_connection(("127.0.0.1", int(os.environ["LEDGER_PORT"]))).makefile("rw")
_random = random.Random(os.getpid())
_failed_once = set()
_puts = 0


def handler(event, context):
    """Forward a batch up to its first record that fails; report that one."""
    records = [_record(r) for r in event["Records"]]
    stop, how = _first_failure(records)
    done = records[:stop]
    if done:
        _forward(done, context.aws_request_id)
        _note_tracked(done)
    _tell(req=context.aws_request_id, cloud=_CLOUD, outcome=how)
    if how == "raise":
        raise RuntimeError("the function fails after it has written everything")
    failed = [] if how == "ok" else [{"itemIdentifier": records[stop]["seq"]}]
    return {"batchItemFailures": failed}


def _record(given):
    kinesis = given["kinesis"]
    return {
        "shard": given["eventID"].partition(":")[0],
        "seq": kinesis["sequenceNumber"],
        "key": kinesis["partitionKey"],
        "data": json.loads(base64.b64decode(kinesis["data"])),
    }


def _first_failure(records):
    """Return how many records go through, and what is answered: ok, partial or raise."""
    for place, record in enumerate(records):
        if record["data"].get("poison"):
            return place, "partial"
        if record["seq"] not in _failed_once and _random.random() < 0.002:
            _failed_once.add(record["seq"])
            return place, "partial"
    first = records[0]["seq"]
    if first not in _failed_once and _random.random() < 0.02:
        _failed_once.add(first)
        return len(records), "raise"
    return len(records), "ok"


def _forward(records, request_id):
    """Put records into the second stream, trying again until each is acknowledged."""
    global _puts
    left, deadline = records, time.monotonic() + GIVE_UP_S
    while left:
        # Unlike for each try: two copies of one record can be told apart wherever they end up.
        _puts += 1
        lines = [
            {"id": f"{request_id}/{_puts}/{place}", "from": [record["shard"], record["seq"]],
             "key": record["key"], "n": record["data"]["n"]}
            for place, record in enumerate(left)
        ]  # fmt: skip
        body = {
            "StreamName": os.environ["OUTPUT_STREAM"],
            "Records": [
                {
                    "Data": base64.b64encode((json.dumps(line) + "\n").encode()).decode(),
                    "PartitionKey": line["key"],
                }
                for line in lines
            ],
        }
        answer = _call("PutRecords", body, deadline)
        results = answer["Records"] if answer else [{"ErrorCode": "none"}] * len(left)
        put = [
            [line["id"], *line["from"], result["ShardId"], result["SequenceNumber"]]
            for line, result in zip(lines, results, strict=True)
            if "ErrorCode" not in result
        ]
        if put:
            _tell(req=request_id, cloud=_CLOUD, put=put)
        left = [r for r, result in zip(left, results, strict=True) if "ErrorCode" in result]
        if left:
            if time.monotonic() > deadline:
                raise TimeoutError("the second stream takes nothing")
            time.sleep(0.02)


def _note_tracked(records):
    """Keep the number of each key's last tracked record in a table."""
    tracked = {r["key"]: r["data"]["n"] for r in records if r["data"].get("tracked")}
    for key, number in tracked.items():
        item = {"key": {"S": key}, "n": {"N": str(number)}}
        body = {"TableName": os.environ["TABLE"], "Item": item}
        deadline = time.monotonic() + GIVE_UP_S
        while _call("PutItem", body, deadline) is None:
            if time.monotonic() > deadline:
                raise TimeoutError("the table takes nothing")
            time.sleep(0.05)


def _call(operation, body, deadline):
    """Return the answer, or None when there is none or it is an error."""
    scope = f"test/20260101/us-east-1/{SCOPE[operation]}/aws4_request"
    headers = {
        "X-Amz-Target": f"{TARGET[operation]}.{operation}",
        "Content-Type": "application/x-amz-json-1.1",
        "Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0",
    }
    try:
        _connection.request("POST", "/", json.dumps(body), headers)
        response = _connection.getresponse()
        answer = json.loads(response.read() or b"{}")
    except (OSError, http.client.HTTPException, ValueError):
        _connection.close()
        return None
    return answer if response.status == 200 else None


def _tell(**what):
    """Write a line into the test's ledger, and return what it answers once the line is there."""
    _ledger.write(json.dumps(what) + "\n")
    _ledger.flush()
    return _ledger.readline()


# Of the cloud that has started this process: whatever it says later may come when that cloud is dead already.
_CLOUD = int(_tell(begins=os.getpid()))
