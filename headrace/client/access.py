"""Credentials, region, endpoints and clients, found by botocore as boto3 finds them. Needs botocore alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.client.pages import Keys, is_here

# Imported where it is used: who needs no more than keys starts a quarter of a second sooner.
if TYPE_CHECKING:
    from botocore.session import Session

_RETRIES: Any = {"mode": "standard", "total_max_attempts": 5}
_READ_TIMEOUT_S, _CONNECT_TIMEOUT_S = 30, 10


class AwsAccess:
    """One account and region: its keys, kept fresh by botocore, and botocore's clients. Thread-safe."""

    def __init__(
        self,
        *,
        session: Any = None,
        region: str | None = None,
        endpoint_url: str | None = None,
    ) -> None:
        """Take a boto3 or botocore session, or None for a new one, and what overrides its configuration.

        This sends nothing. Without `endpoint_url`, AWS_ENDPOINT_URL and the configuration files decide, as for boto3.
        """
        # A boto3 session has botocore's inside; its `client` makes the same clients.
        self._session: Any = getattr(session, "_session", session) or _new_session()
        self.region: str | None = region
        self.endpoint_url = endpoint_url
        self._lock = threading.Lock()
        self._clients: dict[str, Any] = {}
        self._credentials: Any = None

    def client(self, service: str) -> Any:
        """Return botocore's client of a service. Raises botocore's errors when no region or endpoint is known."""
        from botocore.config import Config

        with self._lock:
            if service not in self._clients:
                client: Any = self._session.create_client(
                    service,
                    region_name=self.region,
                    endpoint_url=self.endpoint_url,
                    config=Config(
                        retries=_RETRIES,
                        read_timeout=_READ_TIMEOUT_S,
                        connect_timeout=_CONNECT_TIMEOUT_S,
                        proxies={} if is_here(self.endpoint_url or "") else None,
                    ),
                )
                self.region = str(client.meta.region_name)
                self._clients[service] = client
            return self._clients[service]

    def keys(self) -> Keys:
        """Return keys that are valid now; botocore refreshes those that expire. Raises NoCredentialsError."""
        credentials = self._credentials
        if credentials is None:
            with self._lock:
                credentials = self._credentials = self._session.get_credentials()
            if credentials is None:
                from botocore.exceptions import NoCredentialsError

                raise NoCredentialsError
        frozen = credentials.get_frozen_credentials()
        return Keys(frozen.access_key, frozen.secret_key, frozen.token)

    def drop_keys(self) -> None:
        """Look the keys up anew, in environment and files too: the service has refused them as expired."""
        with self._lock:
            if self._credentials is not None and self._credentials.method == "explicit":
                return
            providers: Any = self._session.get_component("credential_provider")
            self._credentials = providers.load_credentials() or self._credentials


def _new_session() -> Session:
    from botocore.session import Session

    return Session()


class _RoleProvider:
    """Gives the keys of a role, as botocore's own providers do."""

    def __init__(self, fetch: Callable[[], Any]) -> None:
        self._fetch = fetch

    def load_credentials(self) -> Any:
        """Return keys that botocore asks for when they are needed first, and again before they expire."""
        from botocore.credentials import DeferredRefreshableCredentials

        return DeferredRefreshableCredentials(self._fetch, "assume-role")


def assume_role(
    source: Session, role_arn: str, session_name: str, *, external_id: str = "",
    endpoint_url: str | None = None,
) -> Session:  # fmt: skip
    """Return a session with the keys of a role, which the keys of another session assume. This sends nothing.

    Args:
        source: the session whose keys assume the role, and whose region the result has.
        role_arn: the role.
        session_name: of the role's session.
        external_id: what the role's policy may ask for, or empty.
        endpoint_url: of STS; None for AWS's own.
    """
    from botocore.credentials import AssumeRoleCredentialFetcher

    extra = {
        "RoleSessionName": session_name,
        **({"ExternalId": external_id} if external_id else {}),
    }

    def create_client(service: str, **options: Any) -> Any:
        return source.create_client(service, endpoint_url=endpoint_url, **options)

    def fetch() -> Any:
        fetcher = AssumeRoleCredentialFetcher(
            create_client, source.get_credentials(), role_arn, extra_args=extra
        )
        return fetcher.fetch_credentials()

    session = _new_session()
    session.set_config_variable("region", source.get_config_variable("region"))
    session.register_component("credential_provider", _RoleProvider(fetch))
    return session
