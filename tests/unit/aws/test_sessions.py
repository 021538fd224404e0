"""Credentials of role sessions: recognised without a record, by the cloud that gave them out and by no other."""

from __future__ import annotations

import base64
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.aws.signatures.access_keys import RoleSession, RoleSessions, role_name, session_secret

SESSIONS = RoleSessions(bytes(range(32)))
OTHERS = RoleSessions(bytes(32))
SESSION = RoleSession("123456789012", "enricher", "enrich", 1_800_000_000_000)

accounts = st.integers(0, 10**12 - 1).map(lambda number: f"{number:012d}")
names = st.from_regex(r"[\w+=,.@-]{1,64}", fullmatch=True)
sessions = st.builds(RoleSession, accounts, names, names, st.integers(0, 2**48))


@settings(max_examples=40)
@given(sessions)
def test_what_was_given_out_is_recognised(session: RoleSession) -> None:
    made = SESSIONS.issue(session)
    assert SESSIONS.find(made.access_key_id, made.session_token) == session
    assert SESSIONS.account_of(made.access_key_id) == session.account
    assert SESSIONS.credentials(made.access_key_id, made.session_token) == made
    assert len(made.secret_access_key) == 40
    # Nothing is kept: whoever has the secret says the same, as this cloud does after a restart.
    assert RoleSessions(bytes(range(32))).issue(session) == made


@settings(max_examples=20)
@given(sessions)
def test_an_access_key_has_awss_form_and_says_the_account_where_awss_do(
    session: RoleSession,
) -> None:
    key = SESSIONS.issue(session).access_key_id
    assert len(key) == 20
    assert key.startswith("ASIA")
    # As many tools read it: bits 7 to 46 of the first six bytes.
    number = int.from_bytes(base64.b32decode(key[4:])[:6], "big")
    assert (number & 0x7FFF_FFFF_FF80) >> 7 == int(session.account)


@settings(max_examples=20)
@given(sessions)
def test_another_cloud_does_not_know_it(session: RoleSession) -> None:
    made = SESSIONS.issue(session)
    assert OTHERS.account_of(made.access_key_id) is None
    assert OTHERS.find(made.access_key_id, made.session_token) is None
    assert OTHERS.credentials(made.access_key_id, made.session_token) is None


@settings(max_examples=40)
@given(sessions, st.integers(0), st.integers(1, 255))
def test_a_token_that_was_changed_is_none(session: RoleSession, place: int, change: int) -> None:
    made = SESSIONS.issue(session)
    raw = bytearray(base64.b64decode(made.session_token))
    raw[place % len(raw)] ^= change
    forged = base64.b64encode(raw).decode()
    assert SESSIONS.find(made.access_key_id, forged) is None


def test_a_key_goes_with_its_own_token_only() -> None:
    made = SESSIONS.issue(SESSION)
    other = SESSIONS.issue(RoleSession("123456789012", "admin", "enrich", SESSION.expires_ms))
    assert made.access_key_id != other.access_key_id
    assert SESSIONS.find(made.access_key_id, other.session_token) is None


@settings(max_examples=40)
@given(st.text(max_size=40) | st.from_regex(r"ASIA[A-Z2-7]{16}", fullmatch=True))
def test_other_keys_are_nobodys(key: str) -> None:
    assert SESSIONS.account_of(key) is None
    assert SESSIONS.find(key, key) is None


@pytest.mark.parametrize("token", ["", "é", "headrace", "A" * 400, "=", "AAAA\n"])
def test_other_tokens_are_nobodys(token: str) -> None:
    assert SESSIONS.find(SESSIONS.issue(SESSION).access_key_id, token) is None


def test_secrets_are_not_shown_by_accident() -> None:
    made = SESSIONS.issue(SESSION)
    assert made.secret_access_key not in repr(made)
    assert made.session_token not in repr(made)


def test_a_session_has_awss_arn() -> None:
    assert SESSION.arn == "arn:aws:sts::123456789012:assumed-role/enricher/enrich"
    assert role_name("arn:aws:iam::123456789012:role/service-role/deep/enricher") == "enricher"
    assert len(SESSIONS.role_id("123456789012", "enricher")) == 21


# --- the secret -------------------------------------------------------------------------------


def test_the_secret_lasts_and_is_its_owners(tmp_path: Path) -> None:
    first = session_secret(tmp_path, b"a" * 32)
    assert session_secret(tmp_path, b"b" * 32) == first == b"a" * 32
    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_damaged_secret_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "session-secret").write_bytes(b"cut off")
    assert session_secret(tmp_path, b"b" * 32) == b"b" * 32
    assert session_secret(tmp_path, b"c" * 32) == b"b" * 32
