"""IAM's OpenID Connect providers and service-linked roles: calls that moto lacks, and AWS's refusals."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
from typing import Any


def add_client_id_calls(module: Any) -> None:
    """Add the calls that add a client to a provider and remove it. Both are idempotent (documented)."""
    from moto.core.responses import EmptyResult

    def clients_of(self: Any) -> list[str]:
        provider = self.backend.get_open_id_connect_provider(
            self._get_param("OpenIDConnectProviderArn")
        )
        return provider.client_id_list

    def add_client_id_to_open_id_connect_provider(self: Any) -> EmptyResult:
        clients, client = clients_of(self), self._get_param("ClientID")
        if client not in clients:
            clients.append(client)
        return EmptyResult()

    def remove_client_id_from_open_id_connect_provider(self: Any) -> EmptyResult:
        clients, client = clients_of(self), self._get_param("ClientID")
        if client in clients:
            clients.remove(client)
        return EmptyResult()

    response = module.IamResponse
    response.add_client_id_to_open_id_connect_provider = add_client_id_to_open_id_connect_provider
    response.remove_client_id_from_open_id_connect_provider = (
        remove_client_id_from_open_id_connect_provider
    )


def keep_password_reset(module: Any) -> None:
    """Keep whether a new login profile's password must be changed, which moto keeps only of an update."""
    create, get = module.IamResponse.create_login_profile, module.IamResponse.get_login_profile

    @functools.wraps(create)
    def create_login_profile(self: Any) -> Any:
        create(self)
        user = self.backend.get_user(self._get_param("UserName"))
        user.password_reset_required = self._get_bool_param("PasswordResetRequired", False)
        return get(self)

    module.IamResponse.create_login_profile = create_login_profile


def refuse_as_aws(module: Any) -> None:
    """Refuse a provider or a service-linked role that exists, and a service that is no service, as AWS does.

    The sentences are assumed, after users' reports.
    """
    from moto.iam.exceptions import EntityAlreadyExists, InvalidInput

    backend = module.IAMBackend
    create_provider = backend.create_open_id_connect_provider
    create_role = backend.create_service_linked_role

    @functools.wraps(create_provider)
    def create_open_id_connect_provider(self: Any, url: str, *args: Any, **named: Any) -> Any:
        try:
            return create_provider(self, url, *args, **named)
        except EntityAlreadyExists as error:
            raise EntityAlreadyExists(f"Provider with url {url} already exists.") from error

    @functools.wraps(create_role)
    def create_service_linked_role(self: Any, service_name: str, *args: Any, **named: Any) -> Any:
        if not service_name.endswith(".amazonaws.com"):
            raise InvalidInput(f"{service_name} is not a valid service principal.")
        try:
            return create_role(self, service_name, *args, **named)
        except EntityAlreadyExists as error:
            name = error.message.split(" ")[3]
            raise InvalidInput(
                f"Service role name {name} has been taken in this account, please try a different suffix."
            ) from error

    backend.create_open_id_connect_provider = create_open_id_connect_provider
    backend.create_service_linked_role = create_service_linked_role
