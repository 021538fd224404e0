"""Issues EMR jobs the credentials of their roles, as EC2 and EMR Serverless do, and checks the roles' permissions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headrace.aws.signatures.access_keys import RoleSession, RoleSessions, role_name
from headrace.core.clock import Clock
from headrace.core.config import Iam
from headrace.core.ports import CallerIdentity, Guard
from headrace.moto.principals import role_of_profile

# AWS renews them every few hours, which environment variables do not allow; a streaming job may run longer.
VALID_MS = 400 * 24 * 3600 * 1000


def any_secret(account: str) -> str:
    """Return the secret of the jobs of every account when signatures are not verified."""
    return "headrace"


class RoleCredentials:
    """Implements `JobCredentials`. Thread-safe.

    Args:
        load: loads IAM, which knows the roles of instance profiles, and waits.
        secret_of: returns the secret of an account, with which a job without a role signs.
    """

    def __init__(
        self,
        sessions: RoleSessions,
        load: Callable[[], None],
        clock: Clock,
        secret_of: Callable[[str], str],
    ) -> None:
        self._sessions = sessions
        self._load = load
        self._clock = clock
        self._secret_of = secret_of

    def __call__(
        self,
        account: str,
        role: str,
        session: str,
        policy: str = "",
        policy_arns: tuple[str, ...] = (),
    ) -> Mapping[str, str]:
        """See `JobCredentials.__call__`."""
        if not role:
            # The access key id is the account; `--auth` checks the secret.
            return {
                "AWS_ACCESS_KEY_ID": account,
                "AWS_SECRET_ACCESS_KEY": self._secret_of(account),
            }
        name = _role_named(self._load, account, role)
        now_ms = self._clock.now_ms()
        issued = self._sessions.issue(
            RoleSession(
                account, name, session, now_ms + VALID_MS, policy, policy_arns, issued_ms=now_ms
            )
        )
        return {
            "AWS_ACCESS_KEY_ID": issued.access_key_id,
            "AWS_SECRET_ACCESS_KEY": issued.secret_access_key,
            "AWS_SESSION_TOKEN": issued.session_token,
        }


class RoleAccess:
    """Implements `JobAccess`. Thread-safe.

    Args:
        load: loads IAM, which knows the roles of instance profiles, and waits.
        guard: checks the role's permissions.

    Attributes:
        mode: see `JobAccess.mode`.
    """

    def __init__(self, load: Callable[[], None], guard: Guard, mode: Iam) -> None:
        self.mode: str = mode
        self._load = load
        self._guard = guard

    def denial(self, account: str, role: str, session: str, action: str, resource: str) -> str:
        """See `JobAccess.denial`."""
        arn = self.role_arn(account, role)
        return self._guard.denial(CallerIdentity(arn, session), action, resource) if arn else ""

    def role_arn(self, account: str, role: str) -> str:
        """See `JobAccess.role_arn`."""
        if not role or self.mode == "off":
            return ""
        return f"arn:aws:iam::{account}:role/{_role_named(self._load, account, role)}"


def _role_named(load: Callable[[], None], account: str, role: str) -> str:
    """Return the name of a role from its ARN, or from the name or ARN of an instance profile.

    When IAM does not have the profile, it is the profile's name: EMR's default profile, which few users create, has a
    role of the same name.
    """
    name = role_name(role)
    if ":role/" in role:
        return name
    load()
    return role_of_profile(account, name) or name
