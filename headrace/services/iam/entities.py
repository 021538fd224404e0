"""What IAM answers and refuses about users, groups, roles, instance profiles and policies: recorded answers of 2026.

STS: GetCallerIdentity of an unknown key.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from headrace.aws.calls.errors import AwsError

# moto's sentences -> AWS's.
_SENTENCES = [
    (re.compile(pattern), sentence)
    for pattern, sentence in (
        (r"User (\S+) not found", "The user with name {} cannot be found."),
        (r"Group (\S+) not found", "The group with name {} cannot be found."),
        (r"User (\S+) already exists", "User with name {} already exists."),
        (r"Group (\S+) already exists", "Group with name {} already exists."),
        (r"Login profile for (\S+) not found", "Login Profile for User {} cannot be found."),
        (r"User (\S+) already has password", "Login Profile for user {} already exists."),
        (r"Policy Document (\S+) not attached to role \S+", "The role policy with name {} cannot be found."),
        (r"The (Access Key|SSH Public Key) with id (\S+) cannot be found", "The {} with id {} cannot be found."),
    )
]  # fmt: skip


def say_as_aws(module: Any) -> None:
    """Give moto's exceptions AWS's sentences; `module` is moto.iam.exceptions."""
    init = module.IAMException.__init__

    @functools.wraps(init)
    def make(self: Any, *args: Any, **named: Any) -> None:
        if args and isinstance(args[-1], str):
            for pattern, sentence in _SENTENCES:
                if found := pattern.fullmatch(args[-1]):
                    args = (*args[:-1], sentence.format(*found.groups()))
        init(self, *args, **named)

    module.IAMException.__init__ = make


def refuse_and_keep(module: Any) -> None:
    """Refuse what AWS refuses, and keep what it keeps; `module` is moto.iam.models."""
    from moto.iam.exceptions import ValidationError

    backend = module.IAMBackend
    for kind, owner in (("group", module.Group), ("user", module.User)):
        for name in ("get_policy", "delete_policy"):
            setattr(owner, name, _named_policy(getattr(owner, name), kind))
    backend.attach_role_policy = _attach_to_role
    for name in ("attach_role_policy", "attach_user_policy", "attach_group_policy"):
        setattr(backend, name, _of_an_arn(getattr(backend, name), ValidationError))
    module.Policy.permissions_boundary_usage_count = property(_count_bounded)
    _keep_members(backend)
    rename, list_roles = backend.update_user, backend.list_roles

    def update_user(
        self: Any, user_name: str, new_path: str | None = None, new_user_name: str | None = None
    ) -> None:
        if new_user_name and new_user_name != user_name and new_user_name in self.users:
            # As CreateUser refuses it; UpdateUser's documentation has the code.
            raise module.EntityAlreadyExists(f"User {new_user_name} already exists")
        rename(self, user_name, new_path, new_user_name)
        user = self.users[new_user_name or user_name]
        for one in (
            *user.access_keys,
            *user.ssh_public_keys,
            *user.signing_certificates.values(),
        ):
            one.user_name = user.name

    def list_roles_by_name(
        self: Any, path_prefix: str | None = None, marker: Any = None, max_items: Any = None
    ) -> tuple[list[Any], str | None]:
        everything, _ = list_roles(self, path_prefix, None, len(self.roles) or 1)
        if marker and not str(marker).isdecimal():
            raise ValidationError("Invalid Marker.")  # assumed
        start, most = int(marker or 0), int(max_items or 100)
        rows = sorted(everything, key=lambda role: role.name)
        end = start + most
        return rows[start:end], str(end) if end < len(rows) else None

    backend.update_user, backend.list_roles = update_user, list_roles_by_name


def _keep_members(backend: Any) -> None:
    """Refuse to remove a role that an instance profile does not have; a user who is not in a group is no error."""
    from moto.iam.exceptions import NotFoundException

    remove_role, remove_user = (
        backend.remove_role_from_instance_profile,
        backend.remove_user_from_group,
    )

    def remove_role_from_instance_profile(self: Any, profile_name: str, role_name: str) -> None:
        profile, role = self.get_instance_profile(profile_name), self.get_role(role_name)
        if role not in profile.roles:
            raise NotFoundException(
                f"Role {role_name} in Instance Profile {profile_name} cannot be found."
            )
        remove_role(self, profile_name, role_name)

    def remove_user_from_group(self: Any, group_name: str, user_name: str) -> None:
        user = self.get_user(user_name)
        # A user who is in no such group is removed from it all the same.
        if user in self.get_group(group_name).users:
            remove_user(self, group_name, user_name)

    backend.remove_role_from_instance_profile = remove_role_from_instance_profile
    backend.remove_user_from_group = remove_user_from_group


def _named_policy(method: Callable[..., Any], kind: str) -> Any:
    @functools.wraps(method)
    def find(self: Any, policy_name: str) -> Any:
        from moto.iam.exceptions import NotFoundException

        if policy_name not in self.policies:
            raise NotFoundException(f"The {kind} policy with name {policy_name} cannot be found.")
        return method(self, policy_name)

    return find


def _attach_to_role(self: Any, policy_arn: str, role_name: str) -> None:
    """Attach a policy, which moto looks for in a copy of all."""
    from moto.iam.exceptions import NotFoundException

    if policy_arn not in self.managed_policies:
        raise NotFoundException(f"Policy {policy_arn} does not exist or is not attachable.")
    self.managed_policies[policy_arn].attach_to(self.get_role(role_name))


def _of_an_arn(attach: Callable[..., Any], error: Callable[[str], Exception]) -> Any:
    @functools.wraps(attach)
    def attach_by_arn(self: Any, policy_arn: str, name: str) -> Any:
        if not policy_arn.startswith("arn:"):
            raise error(f"ARN {policy_arn} is not valid.")
        return attach(self, policy_arn, name)

    return attach_by_arn


def _count_bounded(policy: Any) -> int:
    """Return for how many users and roles a policy is the boundary."""
    from moto.iam.models import iam_backends

    account = policy.arn.split(":")[4]
    if account == "aws":
        return 0
    backend: Any = iam_backends[account][policy.partition]
    holders = [*backend.users.values(), *backend.roles.values()]
    return sum(holder.permissions_boundary_arn == policy.arn for holder in holders)


_OF_ROLES = ("Description", "MaxSessionDuration", "PermissionsBoundary", "RoleLastUsed", "Tags")
_PROFILES = {
    "CreateInstanceProfileResponse.InstanceProfile": "return_if_not_empty",
    "GetInstanceProfileResponse.InstanceProfile": "",
    "ListInstanceProfilesResponse.InstanceProfiles.InstanceProfile": "never_return",
    "ListInstanceProfilesForRoleResponse.InstanceProfiles.InstanceProfile": "never_return",
}
# Where a role is shown -> what is not.
_BARE = {
    "CreateRoleResponse.Role": ("Description", "MaxSessionDuration", "RoleLastUsed"),
    "UpdateRoleDescriptionResponse.Role": ("MaxSessionDuration", "RoleLastUsed", "Tags"),
    **{f"{path}.Roles.Role": _OF_ROLES for path in _PROFILES},
}


def answer_as_aws(module: Any) -> None:
    """Show and refuse in answers what AWS does; `module` is moto.iam.responses."""
    response = module.IamResponse
    shown = response.RESPONSE_KEY_PATH_TO_TRANSFORMER
    for path, members in _BARE.items():
        shown |= {f"{path}.{name}": module.never_return for name in members}
        shown[f"{path}.AssumeRolePolicyDocument"] = module.url_encode
    shown |= {f"{path}.Tags": getattr(module, how) for path, how in _PROFILES.items() if how}
    for name in (
        "list_access_keys", "get_group", "list_groups", "list_group_policies", "list_instance_profiles",
        "list_instance_profiles_for_role", "list_ssh_public_keys", "list_signing_certificates",
    ):  # fmt: skip
        setattr(response, name, _whole_list(getattr(response, name)))
    response.update_role = _only_given(response.update_role)
    response.list_instance_profile_tags = _list_profile_tags
    response.get_access_key_last_used = _only_of_own_keys(response.get_access_key_last_used)
    delete_key = response.delete_access_key

    @functools.wraps(delete_key)
    def delete_named(self: Any) -> Any:
        caller = self.backend.access_keys.get(self.get_access_key())
        if not self._get_param("UserName") and (caller is None or caller.user_name is None):
            from moto.iam.exceptions import ValidationError

            raise ValidationError("Must specify userName when calling with non-User credentials")
        return delete_key(self)

    response.delete_access_key = delete_named


def _whole_list(method: Any) -> Any:
    """Say of a list that it is whole, and keep what is below the path that was asked for."""

    @functools.wraps(method)
    def list_all(self: Any) -> Any:
        answer, prefix = method(self), self._get_param("PathPrefix")
        members: dict[str, Any] = {"IsTruncated": False, **answer.result}
        for name in ("Groups", "InstanceProfiles"):
            if prefix and name in members:
                members[name] = [one for one in members[name] if one.path.startswith(prefix)]
        return type(answer)(members)

    return list_all


def _only_given(update_role: Any) -> Any:
    """Change of a role what a request has; moto empties the rest."""

    @functools.wraps(update_role)
    def update(self: Any) -> Any:
        role = self.backend.get_role(self._get_param("RoleName"))
        before = {name: getattr(role, name) for name in ("description", "max_session_duration")}
        answer = update_role(self)
        for name, member in (
            ("description", "Description"),
            ("max_session_duration", "MaxSessionDuration"),
        ):
            if self._get_param(member) is None:
                setattr(role, name, before[name])
        return answer

    return update


def _list_profile_tags(self: Any) -> Any:
    from moto.core.responses import ActionResult

    profile = self.backend.get_instance_profile(self._get_param("InstanceProfileName"))
    return ActionResult({"IsTruncated": False, "Tags": profile.tags})


def _only_of_own_keys(method: Any) -> Any:
    """Refuse to tell of a key that the account does not have, as of one that the caller may not see."""

    @functools.wraps(method)
    def tell(self: Any) -> Any:
        key = self._get_param("AccessKeyId")
        if key not in self.backend.access_keys:
            own = self.backend.access_keys.get(self.get_access_key())
            user = self.backend.users.get(own.user_name) if own is not None else None
            root = f"arn:{self.partition}:iam::{self.current_account}:root"
            raise AwsError(
                "AccessDenied",
                f"User: {root if user is None else user.arn} is not authorized to perform "
                f"iam:GetAccessKeyLastUsed on resource: access key {key}",
                403,
            )
        return method(self)

    return tell


# moto's identity for an unknown caller; AWS has no such ARN.
_NOBODY = re.compile(r"arn:[a-z-]+:sts::(\d{12}):user/moto")
# moto's look-up method -> AWS's sentence when it finds nothing (observed by many users).
_MISSING = {
    "get_role": "The role with name {} cannot be found.",
    "get_policy": "Policy {} was not found.",
    "get_instance_profile": "Instance Profile {} cannot be found.",
}


@functools.cache
def patch_look_ups() -> None:
    """Replace moto's methods, once."""
    from moto.iam.models import IAMBackend
    from moto.sts.models import STSBackend

    sts: Any = STSBackend
    sts.get_caller_identity = _as_root(STSBackend.get_caller_identity)
    # `headrace.services.iam.sts_sessions` answers for sessions.
    iam: Any = IAMBackend
    for name, sentence in _MISSING.items():
        setattr(iam, name, _in_awss_words(getattr(IAMBackend, name), sentence))


def _as_root(identity: Any) -> Any:
    """Treat a caller with an unknown key as the account itself, like a root user's key."""

    @functools.wraps(identity)
    def find_identity(self: Any, *args: Any, **named: Any) -> tuple[str, str, str]:
        user_id, arn, account = identity(self, *args, **named)
        if _NOBODY.fullmatch(arn):
            return account, f"arn:{self.partition}:iam::{account}:root", account
        return user_id, arn, account

    return find_identity


def _in_awss_words(find: Callable[..., Any], sentence: str) -> Any:
    @functools.wraps(find)
    def find_named(self: Any, *args: Any, **named: Any) -> Any:
        from moto.iam.exceptions import NotFoundException

        try:
            return find(self, *args, **named)
        except NotFoundException:
            name = (*args, *named.values())[0]
            raise NotFoundException(sentence.format(name)) from None

    return find_named
