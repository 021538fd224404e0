"""Issues and verifies temporary credentials, as STS issues them to roles and users, without storing any.

A function's process gets credentials of its role at each cold start, and a cloud may run long, so stored sessions would
pile up. Instead, the session token itself holds the session and its expiry, signed with a secret of the data directory.
The secret access key is derived from the token. The access key id contains the account, where AWS's ids do (its tools
read it there), and a mark by which this cloud recognizes its own keys. All of them stay valid after a restart.
"""

from __future__ import annotations

import base64
import binascii
import functools
import hmac
import logging
import os
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

log = logging.getLogger(__name__)

SECRET_FILE = "session-secret"
KEY_PREFIX = "ASIA"
_SECRET_BYTES = 32
_SEAL_BYTES = 32
_SECRET_KEY_CHARACTERS = 40
# An access key id is the prefix and ten bytes in Base32: a bit that is always set, the account in 40 bits, 15 bits of
# the token's signature, and a mark of 24 bits.
_KEY_BYTES = 10
_ACCOUNT_SHIFT, _NONCE_SHIFT = 39, 24
_NONCE_BITS, _MARK_BITS = 15, 24
_KEPT_FOUND = 1024


SessionKind = Literal["role", "user", "root", "federated"]


@dataclass(frozen=True, slots=True)
class RoleSession:
    """The session of temporary credentials: usually a role with a session name. `expires_ms` is a wall time.

    Attributes:
        role: the role's name; for other kinds the name of the user who requested the session, empty for the account
            itself.
        name: the name of a role's session, or of a federated user; empty for other kinds.
        policy: the session policy, as JSON; empty without one.
        policy_arns: the managed policies that are session policies too.
        tags: the session's tags, inherited ones included.
        transitive: the keys of the tags that the next session in a chain inherits.
        source_identity: the source identity, which the first session of a chain sets; empty without one.
        kind: `role`; or `user` and `root` for sessions of GetSessionToken, `federated` for those of GetFederationToken.
        issued_ms: when it was issued; 0 when that is unknown.
        has_mfa: whether it was requested with an MFA device's code.
        keys: condition keys of all its calls, with their values, for users of an identity provider.
    """

    account: str
    role: str
    name: str
    expires_ms: int
    policy: str = ""
    policy_arns: tuple[str, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()
    transitive: tuple[str, ...] = ()
    source_identity: str = ""
    kind: SessionKind = "role"
    issued_ms: int = 0
    has_mfa: bool = False
    keys: tuple[tuple[str, tuple[str, ...]], ...] = ()
    partition: str = "aws"

    @property
    def arn(self) -> str:
        """The ARN of the session, as GetCallerIdentity returns it."""
        if self.kind == "role":
            return f"arn:{self.partition}:sts::{self.account}:assumed-role/{self.role}/{self.name}"
        if self.kind == "federated":
            return f"arn:{self.partition}:sts::{self.account}:federated-user/{self.name}"
        who = f"user/{self.role}" if self.kind == "user" else "root"
        return f"arn:{self.partition}:iam::{self.account}:{who}"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of a session: access key id, secret access key and session token."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(repr=False)
    expires_ms: int


class RoleSessions:
    """Issues and verifies the credentials of sessions. Thread-safe; it holds nothing but its secret."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        # Caches, since a function uses the same credentials all its life. They cache pure functions: a dropped entry is
        # computed again.
        self._find = functools.lru_cache(_KEPT_FOUND)(self._open)

    def issue(self, session: RoleSession) -> Credentials:
        """Return the credentials of a session; they are the same each time."""
        payload = msgspec.json.encode(_pack_session(session))
        seal = self._digest(b"token", payload)
        token = base64.b64encode(seal + payload).decode()
        key = self._key_id(session.account, seal)
        return Credentials(key, self._secret_key(token), token, session.expires_ms)

    def account_of(self, access_key: str) -> str | None:
        """Return the account of an access key that this cloud has issued; None for all others."""
        if len(access_key) != 20 or not access_key.startswith(KEY_PREFIX):
            return None
        try:
            number = int.from_bytes(base64.b32decode(access_key[len(KEY_PREFIX) :]), "big")
        except binascii.Error:
            return None
        unmarked = number >> _MARK_BITS
        if number != unmarked << _MARK_BITS | self._mark(unmarked):
            return None
        return f"{unmarked >> _NONCE_BITS & (1 << 40) - 1:012d}"

    def find(self, access_key: str, session_token: str) -> RoleSession | None:
        """Return the session, expired or not, of a key and its token; None when this cloud did not issue the pair."""
        return self._find(access_key, session_token)

    def credentials(self, access_key: str, session_token: str) -> Credentials | None:
        """Return the credentials of a key and its token; None when this cloud did not issue the pair."""
        session = self._find(access_key, session_token)
        if session is None:
            return None
        secret = self._secret_key(session_token)
        return Credentials(access_key, secret, session_token, session.expires_ms)

    def role_id(self, account: str, role: str) -> str:
        """Return an id in AWS's form for a role that IAM does not have; it is always the same."""
        digest = self._digest(b"role", f"{account}/{role}".encode())
        return "AROA" + base64.b32encode(digest).decode()[:17]

    def _open(self, access_key: str, session_token: str) -> RoleSession | None:
        try:
            sealed = base64.b64decode(session_token, validate=True)
        except (binascii.Error, ValueError):
            return None
        seal, payload = sealed[:_SEAL_BYTES], sealed[_SEAL_BYTES:]
        if not hmac.compare_digest(seal, self._digest(b"token", payload)):
            return None
        # This cloud has signed it, so it is well-formed.
        session = RoleSession(*map(_frozen, msgspec.json.decode(payload)))
        return session if access_key == self._key_id(session.account, seal) else None

    def _key_id(self, account: str, seal: bytes) -> str:
        nonce = int.from_bytes(seal[:2], "big") >> 1
        unmarked = 1 << 55 | int(account) << _NONCE_BITS | nonce
        number = unmarked << _MARK_BITS | self._mark(unmarked)
        return KEY_PREFIX + base64.b32encode(number.to_bytes(_KEY_BYTES, "big")).decode()

    def _mark(self, unmarked: int) -> int:
        digest = self._digest(b"key", unmarked.to_bytes(_KEY_BYTES, "big"))
        return int.from_bytes(digest[: _MARK_BITS // 8], "big")

    def _secret_key(self, token: str) -> str:
        digest = self._digest(b"secret", token.encode())
        return base64.b64encode(digest).decode()[:_SECRET_KEY_CHARACTERS]

    def _digest(self, purpose: bytes, data: bytes) -> bytes:
        return hmac.digest(self._secret, purpose + b"\0" + data, "sha256")


def _pack_session(session: RoleSession) -> list[Any]:
    """Return the values of a session for its token, without the default values at the end."""
    values = list(astuple(session))
    for one in reversed(fields(session)):
        if values[-1] != one.default:
            break
        values.pop()
    return values


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, cast("list[Any]", value))) if isinstance(value, list) else value


def role_name(role_arn: str) -> str:
    """Return the name of a role from its ARN, without the path."""
    return role_arn.rpartition("/")[2]


def session_secret(data_dir: Path, fresh: bytes) -> bytes:
    """Return the secret that a data directory keeps; when it has none, store `fresh` (32 bytes) and return it.

    Only its owner may read the file. Raises OSError.
    """
    path = data_dir / SECRET_FILE
    if path.exists():
        kept = path.read_bytes()
        if len(kept) == _SECRET_BYTES:
            return kept
        log.warning("%s is damaged; the credentials of running functions are no longer valid", path)
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(fresh)
    partial.replace(path)
    return fresh
