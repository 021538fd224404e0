"""A user's own server is prepared once, however many statements come first."""

from __future__ import annotations

import threading
import uuid

from psycopg.conninfo import conninfo_to_dict

from headrace.core.ports.warehouses import ClusterSpec
from headrace.services.redshift.preparation import set_up_real


def test_statements_that_come_first_at_once_make_one_database(postgres_url: str) -> None:
    admin = conninfo_to_dict(postgres_url)
    name = f"db_{uuid.uuid4().hex[:12]}"
    spec = ClusterSpec("cluster", "000000000000", "us-east-1", "c", database=name)
    start, failures = threading.Barrier(6), list[BaseException]()

    def prepare() -> None:
        start.wait()
        try:
            set_up_real(admin, spec, name)
        except Exception as error:  # noqa: BLE001 - any failure is the result
            failures.append(error)

    threads = [threading.Thread(target=prepare) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
