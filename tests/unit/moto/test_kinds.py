"""The kinds of requests to moto."""

from __future__ import annotations

import tracemalloc

import botocore.session

from headrace.moto.requests.kinds import kind_of


def test_what_clients_name_operations_is_not_kept():
    """A form's Action may have a megabyte, and a client may send thousands of them."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(100):
            kind_of("sqs", f"{number}{'x' * 100_000}")
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 1_000_000


def test_no_operation_has_so_long_a_name():
    session = botocore.session.get_session()
    names = [
        name
        for service in ("iam", "events", "glue", "sagemaker", "chime")
        for name in session.get_service_model(service).operation_names
    ]
    assert max(map(len, names)) < 128
