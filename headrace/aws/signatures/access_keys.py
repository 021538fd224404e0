"""The access keys that `--auth` accepts: the operator's keys, keys from IAM and STS, and the keys of functions.

The operator's key is made once and kept in the data directory, where only its owner can read it; or a file in the form
of ~/.aws/credentials lists the operator's keys. Functions and jobs get a secret of their account, so that they can call
the cloud that runs them.
"""

from __future__ import annotations

import base64
import configparser
import hmac
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from headrace.aws.signatures.sessions import RoleSessions
from headrace.core.arn import is_account_id
from headrace.core.ids import Ids

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
