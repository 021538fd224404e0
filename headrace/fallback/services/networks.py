"""Corrects EC2's networks, web ACLs and Batch's environments, where moto loses a setting or returns a wrong one."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
import json
from typing import Any


def ec2(module: Any) -> None:
    """Replace methods of moto's EC2."""
    _nat_gateways(module.EC2Backend)
    _endpoints(module.EC2Backend)
    _route_tables(module.EC2Backend)


def _nat_gateways(backend: Any) -> None:
    """Delete a NAT gateway's network interface with it."""
    from moto.ec2.exceptions import EC2ClientError

    create, delete = backend.create_nat_gateway, backend.delete_nat_gateway

    @functools.wraps(create)
    def create_nat_gateway(self: Any, *args: Any, **named: Any) -> Any:
        before = set(self.enis)
        try:
            return create(self, *args, **named)
        except Exception:
            for eni_id in set(self.enis) - before:
                del self.enis[eni_id]
            raise

    @functools.wraps(delete)
    def delete_nat_gateway(self: Any, nat_gateway_id: str) -> Any:
        if nat_gateway_id not in self.nat_gateways:
            raise EC2ClientError("NatGatewayNotFound", f"NatGateway {nat_gateway_id} was not found")
        gateway = delete(self, nat_gateway_id)
        for address in list(self.addresses):
            if address.eni is gateway._eni:
                self.disassociate_address(address=address.public_ip)
        self.enis.pop(gateway._eni.id, None)
        return gateway

    backend.create_nat_gateway = create_nat_gateway
    backend.delete_nat_gateway = delete_nat_gateway


def _endpoints(backend: Any) -> None:
    """Refuse gateway endpoints for services without them; moto could not delete them."""
    from moto.ec2.exceptions import EC2ClientError

    create = backend.create_vpc_endpoint

    @functools.wraps(create)
    def create_vpc_endpoint(
        self: Any,
        vpc_id: str,
        service_name: str,
        endpoint_type: str | None,
        *args: Any,
        **named: Any,
    ) -> Any:
        names = {each.prefix_list_name for each in self.managed_prefix_lists.values()}
        if (endpoint_type or "Gateway") == "Gateway" and service_name not in names:
            raise EC2ClientError(
                "InvalidServiceName", f"The Vpc Endpoint Service '{service_name}' does not exist"
            )
        return create(self, vpc_id, service_name, endpoint_type, *args, **named)

    backend.create_vpc_endpoint = create_vpc_endpoint


def _route_tables(backend: Any) -> None:
    """Give a subnet one route table; moto answers that it has the second, and leaves it with the first."""
    from moto.ec2.exceptions import EC2ClientError

    associate, reassociate = backend.associate_route_table, backend.replace_route_table_association

    @functools.wraps(associate)
    def associate_route_table(
        self: Any, route_table_id: str, gateway_id: str | None = None, subnet_id: str | None = None
    ) -> Any:
        for table in self.route_tables.values():
            taken = subnet_id is not None and subnet_id in table._associations.values()
            if taken and table.id != route_table_id:
                raise EC2ClientError(
                    "Resource.AlreadyAssociated",
                    f"the specified association for route table {route_table_id} conflicts with an existing"
                    " association",
                )
        return associate(self, route_table_id, gateway_id, subnet_id)

    @functools.wraps(reassociate)
    def replace_route_table_association(self: Any, association_id: str, route_table_id: str) -> Any:
        # The association keeps its id, by which stacks know it; on AWS it gets a new one.
        table = self.get_route_table(route_table_id)
        for other in self.route_tables.values():
            if association_id in other._associations:
                table._associations[association_id] = other._associations.pop(association_id)
                return association_id
        return reassociate(self, association_id, route_table_id)

    backend.associate_route_table = associate_route_table
    backend.replace_route_table_association = replace_route_table_association


def wafv2(module: Any) -> None:
    """Give a resource one web ACL at most: the one that was last associated."""
    backend = module.WAFV2Backend
    associate = backend.associate_web_acl

    @functools.wraps(associate)
    def associate_web_acl(self: Any, web_acl_arn: str, resource_arn: str) -> None:
        if web_acl_arn in self.wacls:
            while self.get_web_acl_for_resource(resource_arn) is not None:
                self.disassociate_web_acl(resource_arn)
        associate(self, web_acl_arn, resource_arn)

    backend.associate_web_acl = associate_web_acl
    update = module.FakeWebACL.update

    @functools.wraps(update)
    def update_all(self: Any, action: Any, rules: Any, *others: Any) -> None:
        # UpdateWebACL replaces all rules (documented); moto keeps them when the new list is empty.
        update(self, action, rules or [], *others)

    module.FakeWebACL.update = update_all


_BATCH = "batch.amazonaws.com"
_BATCH_ROLE = "AWSServiceRoleForBatch"


def batch(module: Any) -> None:
    """Give a compute environment without a role the service-linked one (documented); moto refuses it.

    docs.aws.amazon.com/batch/latest/APIReference/API_CreateComputeEnvironment.html, `serviceRole`; the role's name and
    path: docs.aws.amazon.com/batch/latest/userguide/using-service-linked-roles.html.
    """
    create = module.BatchBackend.create_compute_environment

    @functools.wraps(create)
    def create_compute_environment(self: Any, *, service_role: str, **named: Any) -> Any:
        role = service_role or _linked_role(self.iam_backend)
        return create(self, service_role=role, **named)

    module.BatchBackend.create_compute_environment = create_compute_environment


def _linked_role(iam: Any) -> str:
    """Return the ARN of the account's service-linked role for Batch, created if it does not exist."""
    for role in iam.roles.values():
        if role.name == _BATCH_ROLE:
            return str(role.arn)
    trust = {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Principal": {"Service": [_BATCH]}, "Action": ["sts:AssumeRole"]}
        ],
    }
    made = iam.create_role(
        _BATCH_ROLE,
        json.dumps(trust),
        f"/aws-service-role/{_BATCH}/",
        permissions_boundary=None,
        description="",
        tags=[],
        max_session_duration="3600",
        linked_service=_BATCH,
    )
    return str(made.arn)
