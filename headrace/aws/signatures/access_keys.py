"""The access keys that `--auth` accepts: the operator's keys, keys from IAM and STS, and the keys of functions.

The operator's key is made once and kept in the data directory, where only its owner can read it; or a file in the form
of ~/.aws/credentials lists the operator's keys. Functions and jobs get a secret of their account, so that they can call
the cloud that runs them.

Issues and verifies temporary credentials, as STS issues them to roles and users, without storing any.

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
import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from headrace.core.arn import is_account_id
from headrace.core.ids import Ids

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


SECRETS_FILE = "auth.json"
_OWNER_ONLY = 0o600
_SECRET_CHARACTERS = 40
_KEY_PREFIX = "HRKA"
# The lengths of AWS's keys.
_KEY_CHARACTERS = 20


class KeysRefused(ValueError):
    """A file of keys cannot be used; the message is one sentence."""


class WrongToken(Exception):
    """A request named a temporary key without its session token, or with the token of another key."""


@dataclass(frozen=True, slots=True)
class AccessKey:
    """An access key: its id, its secret, and whose it is.

    Attributes:
        id: the access key id, which requests carry.
        token: the session token of the key; None when it has none.
        account: the account of the key; None for the cloud's own account.
        expires_ms: when the key expires.
        needs_token: a request must carry the token or, when the key has none, must not carry any.
    """

    id: str
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)
    account: str | None = None
    expires_ms: int | None = None
    needs_token: bool = True


@dataclass(frozen=True, slots=True)
class Secrets:
    """The secrets that a data directory keeps for `--auth`.

    Attributes:
        access_key_id: the operator's key.
        secret_access_key: its secret.
        internal_secret: the secret from which those of functions and jobs are derived.
        page_token: opens the cloud's pages in a browser.
    """

    access_key_id: str
    secret_access_key: str = field(repr=False)
    internal_secret: str = field(repr=False)
    page_token: str = field(repr=False)


def secrets_of(data_dir: Path, ids: Ids) -> Secrets:
    """Return the secrets of a data directory; they are created when there are none. Raises KeysRefused, OSError."""
    path = data_dir / SECRETS_FILE
    kept = read_secrets(data_dir)
    if kept is not None:
        path.chmod(_OWNER_ONLY)
        return kept
    secrets = Secrets(
        access_key_id=_KEY_PREFIX + ids.alnum_upper(_KEY_CHARACTERS - len(_KEY_PREFIX)),
        secret_access_key=base64.b64encode(ids.bytes(30)).decode(),
        internal_secret=ids.hex(64),
        page_token=ids.hex(48),
    )
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    # Created with mode 600, so that nobody else can read it at any moment.
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
    with os.fdopen(descriptor, "w") as file:
        json.dump(asdict(secrets), file)
    partial.replace(path)
    return secrets


def read_secrets(data_dir: Path) -> Secrets | None:
    """Return the secrets that a data directory keeps; None when it keeps none. Raises KeysRefused."""
    path = data_dir / SECRETS_FILE
    try:
        value = json.loads(path.read_text())
        return Secrets(**{name: str(value[name]) for name in Secrets.__dataclass_fields__})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise KeysRefused(
            f"{path} does not hold the keys of --auth; remove it, and new ones are made."
        ) from error


def read_keys(path: Path) -> list[AccessKey]:
    """Return the keys of a file in the form of ~/.aws/credentials. Raises KeysRefused."""
    import configparser

    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text())
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a credentials file"
        raise KeysRefused(f"The keys of {path} cannot be read: {reason}.") from error
    keys = [_key_of(path, name, parser[name]) for name in parser.sections()]
    if not keys:
        raise KeysRefused(f"{path} lists no keys: write them as in ~/.aws/credentials.")
    return keys


def _key_of(path: Path, profile: str, values: Mapping[str, str]) -> AccessKey:
    key, secret = values.get("aws_access_key_id", ""), values.get("aws_secret_access_key", "")
    account = values.get("aws_account_id")
    if not key or not secret:
        needed = "aws_access_key_id and aws_secret_access_key"
        raise KeysRefused(f"The profile {profile} of {path} needs {needed}.")
    if account is not None and not is_account_id(account):
        raise KeysRefused(f"The aws_account_id of the profile {profile} of {path} has 12 digits.")
    return AccessKey(key, secret, values.get("aws_session_token"), account)


class KeyRing:
    """Finds access keys by their ids. Thread-safe: its own fields never change.

    Attributes:
        page_token: opens the cloud's pages in a browser.
        operators: the operator's keys; this cloud makes the first unless a file lists them.
    """

    def __init__(
        self,
        secrets: Secrets,
        *,
        listed: list[AccessKey] | None,
        others: Callable[[str], AccessKey | None],
        has_others: Callable[[], bool],
        sessions: RoleSessions | None = None,
    ) -> None:
        """Take the data directory's secrets, the keys of a file (None without one), and the sources of other keys.

        A lookup in `others` may block until `has_others` is true; `sessions` are asked first, and never block.
        """
        self._sessions = sessions
        own = AccessKey(secrets.access_key_id, secrets.secret_access_key)
        self.operators = [own] if listed is None else listed
        self.page_token = secrets.page_token
        self._keys = {key.id: key for key in self.operators}
        self._internal_secret = secrets.internal_secret.encode()
        self._others = others
        self._has_others = has_others

    def find(self, key_id: str, token: str | None) -> AccessKey | None:
        """Return the key with an id; None when there is none. Raises WrongToken.

        The caller compares the token when the key has one.
        """
        return self._find_here(key_id) or self._find_session(key_id, token) or self._others(key_id)

    def is_quick(self, key_id: str) -> bool:
        """Whether `find` does not block."""
        if self._find_here(key_id) is not None or self._has_others():
            return True
        return self._sessions is not None and self._sessions.account_of(key_id) is not None

    def _find_session(self, key_id: str, token: str | None) -> AccessKey | None:
        if self._sessions is None:
            return None
        account = self._sessions.account_of(key_id)
        if account is None:
            return None
        credentials = self._sessions.credentials(key_id, token or "")
        if credentials is None:
            raise WrongToken(key_id)
        return AccessKey(
            key_id, credentials.secret_access_key, token, account, credentials.expires_ms
        )

    def _find_here(self, key_id: str) -> AccessKey | None:
        known = self._keys.get(key_id)
        if known is None and is_account_id(key_id):
            return AccessKey(key_id, self.secret_for(key_id), account=key_id, needs_token=False)
        return known

    def secret_for(self, account: str) -> str:
        """Return the secret of an account's functions and jobs, whose access key id is the account's id."""
        digest = hmac.digest(self._internal_secret, account.encode(), "sha256")
        return base64.b64encode(digest).decode()[:_SECRET_CHARACTERS]
