"""EC2: networks where moto loses a setting; filters and numbers of instances within bounds; tables that load late."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping
from types import ModuleType
from typing import Any

from headrace.core.patterns import glob_matches


def correct_networks(module: Any) -> None:
    """Replace methods of moto's EC2."""
    _nat_gateways(module.EC2Backend)
    _endpoints(module.EC2Backend)
    _route_tables(module.EC2Backend)
    _dhcp_options(module.EC2Backend)


def _dhcp_options(backend: Any) -> None:
    """Delete DHCP options that no VPC has: moto remembers the VPC that had them last, also after it got others.

    Options have an owner, and the tags that they are created with.
    """
    from moto.ec2.models.dhcp_options import DHCPOptionsSet
    from moto.ec2.responses.dhcp_options import DHCPOptions

    options_type: Any = DHCPOptionsSet
    options_type.owner_id = property(lambda self: self.ec2_backend.account_id)
    responses: Any = DHCPOptions
    create = responses.create_dhcp_options

    @functools.wraps(create)
    def create_dhcp_options(self: Any) -> Any:
        answer = create(self)
        tags = self._parse_tag_specification().get("dhcp-options", {})
        answer.result["DhcpOptions"].add_tags(tags)
        return answer

    responses.create_dhcp_options = create_dhcp_options
    delete = backend.delete_dhcp_options_set

    @functools.wraps(delete)
    def delete_dhcp_options_set(self: Any, options_id: str | None) -> None:
        options = self.dhcp_options_sets.get(options_id)
        if options is not None:
            users = (
                vpc
                for vpc in self.vpcs.values()
                if vpc.dhcp_options is not None and vpc.dhcp_options.id == options_id
            )
            options.vpc = next(users, None)
        delete(self, options_id)

    backend.delete_dhcp_options_set = delete_dhcp_options_set


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
        names = {
            managed_prefix_list.prefix_list_name
            for managed_prefix_list in self.managed_prefix_lists.values()
        }
        if (endpoint_type or "Gateway") == "Gateway" and service_name not in names:
            raise EC2ClientError(
                "InvalidServiceName", f"The Vpc Endpoint Service '{service_name}' does not exist"
            )
        return create(self, vpc_id, service_name, endpoint_type, *args, **named)

    backend.create_vpc_endpoint = create_vpc_endpoint


def _route_tables(backend: Any) -> None:
    """Give a subnet one route table; moto answers that it has the second, and leaves it with the first.

    The association of a virtual private gateway is shown, as that of an internet gateway is.
    """
    from moto.ec2.exceptions import EC2ClientError
    from moto.ec2.models.route_tables import RouteTable

    shown_by_moto: Any = vars(RouteTable)["associations"].fget

    def associations(self: Any) -> list[dict[str, Any]]:
        shown: list[dict[str, Any]] = shown_by_moto(self)
        for one in shown:
            if not (one["Main"] or "SubnetId" in one):
                one["GatewayId"] = self._associations[one["RouteTableAssociationId"]]
        return shown

    table_type: Any = RouteTable
    table_type.associations = property(associations)
    table_type.propagating_vgws = ()  # DescribeRouteTables shows the empty list (recorded)

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


def match_by_wildcards(module: ModuleType) -> None:
    """Match filters by wildcards instead of regular expressions."""

    def aws_api_matches(pattern: str, string: Any) -> bool:
        return glob_matches(pattern, str(string), escape="\\")

    vars(module)["aws_api_matches"] = aws_api_matches


# Several times AWS's usual quota; moto creates each instance in twenty milliseconds.
_MOST_INSTANCES = 100


def limit_instances(module: ModuleType) -> None:
    """Refuse more instances in one request than a laptop can hold."""
    backend: Any = module.InstanceBackend
    run: Any = backend.run_instances

    @functools.wraps(run)
    def run_some(self: Any, image_id: str, count: int, *args: Any, **named: Any) -> Any:
        if count > _MOST_INSTANCES:
            from moto.ec2.exceptions import EC2ClientError

            raise EC2ClientError(
                "InstanceLimitExceeded",
                f"You have requested more instances ({count}) than your current instance limit of"
                f" {_MOST_INSTANCES} allows for the specified instance type.",
            )
        return run(self, image_id, count, *args, **named)

    backend.run_instances = run_some


_TABLES = "ec2/resources/instance_type"


class _LateTable(Mapping[str, Any]):
    """A table of moto's, of which a part is loaded when somebody asks for it."""

    def __init__(self, names: Callable[[], Collection[str]], load: Callable[[str], Any]) -> None:
        self._names, self._load = names, load

    def __getitem__(self, name: str) -> Any:
        if name not in self._names():
            raise KeyError(name)
        return self._load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())


def load_tables_late(module: Any) -> None:
    """Load the tables of instance types when a request asks for one, and offerings for its region alone."""
    from moto.utilities.utils import load_resource

    @functools.cache
    def types() -> dict[str, Any]:
        return dict(load_resource(f"{_TABLES}s.json"))

    @functools.cache
    def families() -> set[str]:
        return {name.partition(".")[0] for name in types()}

    @functools.cache
    def type_list() -> list[Any]:
        return [module.InstanceType(name) for name in types()]

    @functools.cache
    def offerings(kind: str, region: str) -> list[dict[str, Any]]:
        table = load_resource(f"{_TABLES}_offerings/{kind}/{region}.json")
        return [{**one, "LocationType": kind} for one in table]

    module.INSTANCE_TYPES = _LateTable(types, lambda name: types()[name])
    module.INSTANCE_FAMILIES = _LateTable(families, str)
    module.INSTANCE_TYPE_OFFERINGS = {
        kind: _LateTable(regions.keys, functools.partial(offerings, kind))
        for kind, regions in module.INSTANCE_TYPE_OFFERINGS.items()
    }
    module.InstanceTypeBackend.instance_types = property(lambda _: type_list())
