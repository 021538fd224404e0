"""Kill -9 a cloud while clients put objects: what was acknowledged is there whole, and nothing is half there."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from tests.support.server import ServerProcess, wait_until

pytestmark = pytest.mark.crash

BUCKET = "bucket-one"
WRITERS = 3
# Each writer goes round its few keys, so that a kill meets replacements as well as new objects.
KEYS = 5
ROUNDS_BEFORE_KILL = 20


def body_of(writer: int, number: int) -> bytes:
    return f"{writer}-{number};".encode() * (1 + number % 50)


def write(client: Any, writer: int, acknowledged: dict[str, int], sent: dict[str, int]) -> None:
    number = 0
    while True:
        separator = "/" if number % 2 else "//"  # every other key is one that cannot be a path
        key = f"w{writer}{separator}k{number % KEYS}"
        sent[key] = number
        try:
            client.put_object(
                Bucket=BUCKET,
                Key=key,
                Body=body_of(writer, number),
                Metadata={"number": str(number)},
            )
        except (BotoCoreError, ClientError):
            return
        acknowledged[key] = number
        number += 1


@pytest.mark.parametrize("moment", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_acknowledged_objects_are_whole_after_kill_9(tmp_path: Path, moment: int):
    with ServerProcess(tmp_path / "data") as server:
        server.client("s3").create_bucket(Bucket=BUCKET)
        acknowledged: list[dict[str, int]] = [{} for _ in range(WRITERS)]
        sent: list[dict[str, int]] = [{} for _ in range(WRITERS)]
        writers = [
            threading.Thread(target=write, args=(server.client("s3"), n, acknowledged[n], sent[n]))
            for n in range(WRITERS)
        ]
        for thread in writers:
            thread.start()
        enough = ROUNDS_BEFORE_KILL + 7 * moment
        wait_until(lambda: max(acknowledged[0].values(), default=0) >= enough, what="writes")
        server.kill9()
        for thread in writers:
            thread.join()
        server.start()
        check(server.client("s3"), acknowledged, sent)


def check(client: Any, acknowledged: list[dict[str, int]], sent: list[dict[str, int]]) -> None:
    listed = {item["Key"]: item for item in client.list_objects_v2(Bucket=BUCKET)["Contents"]}
    for writer in range(WRITERS):
        assert set(acknowledged[writer]) <= {k for k in listed if k.startswith(f"w{writer}/")}
        for key in (key for key in listed if key.startswith(f"w{writer}/")):
            got = client.get_object(Bucket=BUCKET, Key=key)
            number = int(got["Metadata"]["number"])
            # The last one may have been written and not acknowledged.
            assert number in (acknowledged[writer].get(key), sent[writer][key])
            assert got["Body"].read() == body_of(writer, number)
            etag = f'"{hashlib.md5(body_of(writer, number)).hexdigest()}"'
            assert (got["ETag"], listed[key]["ETag"]) == (etag, etag)
