"""Makes and recognises temporary credentials, as STS issues them to roles and users, without storing any.

A function's process is given credentials of its role at each cold start, and a cloud may live long: nothing may pile
up. So everything is in the session token, sealed with a secret of the data directory: whose it is and until when. The
secret access key is made from the token, and the access key id says the account, where AWS's own do (its tools read it
there), with a mark by which this cloud knows its own. All of it holds after a restart.
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

from headrace.aws.http import HttpRequest

log = logging.getLogger(__name__)

SECRET_FILE = "session-secret"
KEY_PREFIX = "ASIA"
_SECRET_BYTES = 32
_SEAL_BYTES = 32
_SECRET_KEY_CHARACTERS = 40
# An access key id is the prefix and ten bytes in Base32. A bit that is always set, the account in 40 bits, 15 bits of
# the token's seal, and a mark of 24 bits.
_KEY_BYTES = 10
_ACCOUNT_SHIFT, _NONCE_SHIFT = 39, 24
_NONCE_BITS, _MARK_BITS = 15, 24
_KEPT_FOUND = 1024


SessionKind = Literal["role", "user", "root", "federated"]


@dataclass(frozen=True, slots=True)
class RoleSession:
    """Who acts: mostly a role under a session's name. `expires_ms` is a wall time.

    Attributes:
        role: the role's name; for other kinds the user's who asked for the session, empty for the account itself.
        name: of a role's session, or of a federated user; empty for other kinds.
        policy: the session policy, as JSON; empty without one.
        policy_arns: the managed policies that are session policies too.
        tags: the session's tags, those that it inherited too.
        transitive: the keys of the tags that the next session in a chain inherits.
        source_identity: as it was set first in the chain; empty without one.
        kind: `user` and `root` are sessions of GetSessionToken's, `federated` of GetFederationToken's.
        issued_ms: when it was given out; 0 where nobody says.
        has_mfa: whether an MFA device's code was given for it.
        keys: condition keys that all of its calls have, with their values: of whom another provider vouches for.
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

    @property
    def arn(self) -> str:
        """The ARN of who acts, as GetCallerIdentity tells it."""
        if self.kind == "role":
            return f"arn:aws:sts::{self.account}:assumed-role/{self.role}/{self.name}"
        if self.kind == "federated":
            return f"arn:aws:sts::{self.account}:federated-user/{self.name}"
        who = f"user/{self.role}" if self.kind == "user" else "root"
        return f"arn:aws:iam::{self.account}:{who}"


@dataclass(frozen=True, slots=True)
class Credentials:
    """An access key id, a secret and a session token, with which a program signs."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(repr=False)
    expires_ms: int


class RoleSessions:
    """Gives out and recognises the credentials of role sessions. Thread-safe; holds nothing but its secret."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        # A function calls with the same credentials all its life. Of pure functions: what is dropped is found again.
        self._find = functools.lru_cache(_KEPT_FOUND)(self._open)

    def issue(self, session: RoleSession) -> Credentials:
        """Return credentials of a session; the same ones each time."""
        payload = msgspec.json.encode(_sealed(session))
        seal = self._digest(b"token", payload)
        token = base64.b64encode(seal + payload).decode()
        key = self._key_id(session.account, seal)
        return Credentials(key, self._secret_key(token), token, session.expires_ms)

    def account_of(self, access_key: str) -> str | None:
        """Return the account of an access key that this cloud has given out; None for all others."""
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
        """Return the session, expired or not, of a key and its token; None when they are not a pair of this cloud's."""
        return self._find(access_key, session_token)

    def credentials(self, access_key: str, session_token: str) -> Credentials | None:
        """Return what such requests are signed with; None when they are not a pair of this cloud's."""
        session = self._find(access_key, session_token)
        if session is None:
            return None
        secret = self._secret_key(session_token)
        return Credentials(access_key, secret, session_token, session.expires_ms)

    def role_id(self, account: str, role: str) -> str:
        """Return the id of a role that IAM does not know, always the same, in AWS's form."""
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
        # Sealed by this cloud, so it has its form.
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


def _sealed(session: RoleSession) -> list[Any]:
    """Return what a token holds of a session: its values, without those at the end that are as usual."""
    values = list(astuple(session))
    for one in reversed(fields(session)):
        if values[-1] != one.default:
            break
        values.pop()
    return values


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, cast("list[Any]", value))) if isinstance(value, list) else value


def token_of(request: HttpRequest) -> str:
    """Return the session token of a request, empty without one."""
    token = request.headers.get("x-amz-security-token")
    if token is None and "X-Amz-Security-Token" in request.query:
        token = request.query_params().get("X-Amz-Security-Token")
    return token or ""


def role_name(role_arn: str) -> str:
    """Return the name of a role, without the path that its ARN may have."""
    return role_arn.rpartition("/")[2]


def session_secret(data_dir: Path, fresh: bytes) -> bytes:
    """Return the secret of a data directory: the one that it keeps, else `fresh` (32 bytes), kept from now on.

    Nobody but its owner may read the file. Raises OSError.
    """
    path = data_dir / SECRET_FILE
    if path.exists():
        kept = path.read_bytes()
        if len(kept) == _SECRET_BYTES:
            return kept
        log.warning("%s is damaged; credentials that functions were given are void", path)
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(fresh)
    partial.replace(path)
    return fresh
