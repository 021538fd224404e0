"""Send the first requests of a process's life from many threads at once; print what failed.

Run as `python -m tests.support.programs.first_requests SEED FOLDER`. Only a new process imports moto anew.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.aws.calls.http import HttpRequest
from headrace.aws.gateway.dispatch import Gateway
from headrace.aws.protocols import codec_moto
from headrace.composition.foundation import build_moto
from headrace.core.clock import SystemClock
from headrace.core.ids import Ids
from headrace.store.database import Database


def main() -> None:
    seed, folder = int(sys.argv[1]), Path(sys.argv[2])
    # Threads change places as often as can be.
    sys.setswitchinterval(1e-5)
    clock, ids = SystemClock(), Ids()
    moto = build_moto(database=Database(folder / "state"), clock=clock, ids=ids).engine
    gateway = Gateway(clock=clock, ids=ids, account="000000000000", region="us-east-1", moto=moto)
    listing = HttpRequest("GET", "/2015-03-31/functions")
    works: list[Callable[[], Any]] = [
        moto.warm_up,
        lambda: codec_moto.parse_request("lambda", listing),
        lambda: codec_moto.serialize_output("s3", "ListBuckets", {}, "id"),
        lambda: gateway.call("sqs", "ListQueues", {}),
        lambda: gateway.call("iam", "ListRoles", {}),
        lambda: gateway.call("glue", "GetDatabases", {}),
        lambda: gateway.call("sts", "GetCallerIdentity", {}),
        lambda: gateway.call("ssm", "DescribeParameters", {}),
    ]
    random.Random(seed).shuffle(works)
    failures: list[str] = []

    def run(work: Callable[[], Any]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - all of them are the result
            failures.append(repr(error))

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.stdout.write("\n".join(failures))


if __name__ == "__main__":
    main()
