"""Permissions boundaries: allows them on users too, and requires an existing managed policy."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
from typing import Any


def patch() -> None:
    """Add what moto's IAM lacks. Called once."""
    from moto.iam.models import IAMBackend, Role, User
    from moto.iam.responses import IamResponse

    user: Any = User
    user.permissions_boundary_arn = None
    user.permissions_boundary = Role.permissions_boundary
    responses: Any = IamResponse
    responses.create_user = _with_boundary(IamResponse.create_user)
    responses.put_user_permissions_boundary = _put_of_user
    responses.delete_user_permissions_boundary = _delete_of_user
    backend: Any = IAMBackend
    backend.put_role_permissions_boundary = _of_what_is_there(backend.put_role_permissions_boundary)


def _check(backend: Any, arn: str) -> None:
    """Refuse a boundary that is not an existing policy. Users report this sentence of IAM."""
    from moto.iam.exceptions import NotFoundException

    if arn not in backend.managed_policies:
        raise NotFoundException(f"Scope ARN: {arn} does not exist or is not attachable.")


def _of_what_is_there(put: Any) -> Any:
    @functools.wraps(put)
    def check_first(self: Any, role_name: str, permissions_boundary: str) -> None:
        self.get_role(role_name)
        _check(self, permissions_boundary)
        put(self, role_name, permissions_boundary)

    return check_first


def _with_boundary(create_user: Any) -> Any:
    @functools.wraps(create_user)
    def check_and_create(self: Any) -> Any:
        arn = self._get_param("PermissionsBoundary")
        if arn:
            _check(self.backend, arn)
        answer = create_user(self)
        if arn:
            answer.result["User"].permissions_boundary_arn = arn
        return answer

    return check_and_create


def _put_of_user(self: Any) -> Any:
    from moto.core.responses import EmptyResult

    user = self.backend.get_user(self._get_param("UserName"))
    arn = self._get_param("PermissionsBoundary")
    _check(self.backend, arn)
    user.permissions_boundary_arn = arn
    return EmptyResult()


def _delete_of_user(self: Any) -> Any:
    from moto.core.responses import EmptyResult

    self.backend.get_user(self._get_param("UserName")).permissions_boundary_arn = None
    return EmptyResult()
