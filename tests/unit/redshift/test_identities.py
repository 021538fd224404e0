"""IAM identities log in to a cluster's server for a while."""

from __future__ import annotations

import psycopg
import pytest

from headrace.core.clock import SystemClock
from headrace.services.redshift.preparation import issue_login
from headrace.services.redshift.session import connect

HOUR_MS = 3_600_000


def lent(url: str, user: str, *, acts_as: str = "", for_ms: int = HOUR_MS) -> str:
    with connect(conninfo=url) as connection:
        return issue_login(connection, "s", user, acts_as, SystemClock().now_ms() + for_ms)


def ask(url: str, user: str, password: str, sql: str) -> object:
    with psycopg.connect(url, user=user, password=password) as connection:
        found = connection.execute(sql.encode()).fetchone()
    return found[0] if found else None


def test_a_login_is_the_identitys_and_the_same_when_asked_again(postgres_url: str):
    user = 'IAMR:reader"one'
    word = lent(postgres_url, user)
    assert ask(postgres_url, user, word, "select current_user") == user
    # A shorter one does not end what was given before.
    assert lent(postgres_url, user, for_ms=-HOUR_MS) == word
    assert ask(postgres_url, user, word, "select current_user") == user
    assert lent(postgres_url, "IAM:another") != word


def test_a_login_ends(postgres_url: str):
    word = lent(postgres_url, "IAM:late", for_ms=-1000)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        ask(postgres_url, "IAM:late", word, "select 1")


def test_nobody_logs_in_as_somebody_who_is_not_there(postgres_url: str):
    word = lent(postgres_url, "IAM:nobody", acts_as="nobody_of_logins")
    with pytest.raises(psycopg.OperationalError, match="authentication failed"):
        ask(postgres_url, "IAM:nobody", word, "select 1")


def test_a_login_may_have_anothers_rights(postgres_url: str):
    with connect(conninfo=postgres_url) as connection:
        connection.execute("create role boss_of_logins")
    word = lent(postgres_url, "IAM:root", acts_as="boss_of_logins")
    assert ask(postgres_url, "IAM:root", word, "select current_user") == "boss_of_logins"
