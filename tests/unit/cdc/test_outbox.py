"""The outbox against the naive dual write: the writer is killed between any two of its steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg

from tests.unit.cdc.conftest import Lab

Steps = Iterator[None]


def _dual_write(connection: Any, put: Callable[[int], None], order: int) -> Steps:
    """Store an order, then tell of it: what many services do."""
    connection.execute("insert into orders values (%s)", (order,))
    yield
    connection.commit()
    yield
    put(order)
    yield


def _outbox(connection: Any, put: Callable[[int], None], order: int) -> Steps:
    """Store an order and its event in one transaction; the capture tells of it."""
    connection.execute("insert into orders values (%s)", (order,))
    yield
    connection.execute("insert into outbox (order_id) values (%s)", (order,))
    yield
    connection.commit()
    yield


def _write(lab: Lab, write: Any, put: Callable[[int], None], orders: range) -> None:
    """Write orders, each by a writer that is killed after another step."""
    for order in orders:
        connection = psycopg.connect(lab.url)
        for step, _ in enumerate(write(connection, put, order)):
            if step == order % 4:
                break
        # A killed client's transaction is rolled back by the server.
        connection.close()


def test_an_outbox_tells_of_exactly_the_orders_that_are_stored_and_a_dual_write_does_not(lab: Lab):
    lab.run("create table orders (id int primary key)",
            "create table outbox (id bigint generated always as identity primary key, order_id int)")  # fmt: skip
    tables = ("public.outbox",)
    lab.read(tables=tables)
    told: list[int] = []
    _write(lab, _dual_write, told.append, range(40))
    stored = {i for (i,) in lab.run("select id from orders")}
    # Killed between commit and put: a quarter of all is stored, and nobody ever hears of it.
    assert len(stored - set(told)) == 10
    _write(lab, _outbox, told.append, range(100, 140))
    stored = {i for (i,) in lab.run("select id from orders where id >= 100")}
    assert len(stored) == 20
    assert {e["after"]["order_id"] for e in lab.read(tables=tables)} == stored
