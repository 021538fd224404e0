"""Changes moto's modules: each patch is called once, with its module, as soon as the module has been imported.

moto imports most of its modules on first use, and so do these patches what they change.

Starts moto, patched and empty.

Updates resources of moto's from the members of a request, and removes what a failed creation leaves.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import collections.abc
import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

from botocore import xform_name
from botocore.exceptions import UnknownServiceError
from botocore.loaders import Loader

from headrace.aws.calls.operation import LeanFiles, service_description
from headrace.aws.protocols.moto_imports import load_moto
from headrace.core.late_imports import LateFinder

Patch = Callable[[Any], None]


@dataclass(frozen=True, eq=False)
class Patches:
    """Every change of moto.

    Attributes:
        of_modules: the name of a module of moto -> the functions that change it, in order.
        at_start: functions that change modules which moto always imports; each is called once.
    """

    of_modules: Mapping[str, Sequence[Patch]]
    at_start: Sequence[Callable[[], None]]


# What these modules import for what few requests do: half of the memory that an empty moto would take. A path that no
# request uses, such as moto's clients of itself, is never imported.
_LATER: Mapping[str, Collection[str]] = {
    "moto": ("moto.core.decorator",),
    # Validators of OpenAPI's documents, which headrace reads itself.
    "moto.apigateway.integration_parsers": ("requests",),
    "moto.apigateway.models": (
        "moto.core.models.responses_mock",
        "openapi_spec_validator",
        "requests",
        "responses",
    ),
    "moto.core": ("moto.core.models.patch_client", "moto.core.models.patch_resource"),
    "moto.core.base_backend": ("boto3",),
    "moto.core.request": ("botocore.awsrequest",),
    "moto.core.utils": ("botocore.session",),
    "moto.dynamodb.models.dynamo_type": ("boto3",),
    "moto.ec2.models.key_pairs": ("cryptography",),
    "moto.ec2.utils": ("cryptography",),
    # The grammar of partitions' expressions, made of pyparsing.
    "moto.glue.models": ("moto.glue.utils",),
    "moto.glue.responses": ("moto.glue.utils",),
    # Five megabytes of text that headrace reads when somebody looks for a policy.
    "moto.iam.models": ("cryptography", "moto.iam.aws_managed_policies"),
    "moto.sns.models": ("cryptography",),
}
# Modules whose code runs when it is needed, with the names that others take from them at their own import.
_LATE: Mapping[str, Mapping[str, Any]] = {
    # The decorators of tests, with what they replace in clients.
    "moto.core.models": {"DEFAULT_ACCOUNT_ID": "123456789012"},
    "requests": {},
    "requests.compat": {
        "Mapping": collections.abc.Mapping,
        "MutableMapping": collections.abc.MutableMapping,
    },
    # Its code imports its servers for tests.
    "werkzeug": {},
}


class _Regions:
    """Stands for boto3's session where only regions are asked for: each session reads 25 MB to answer that."""

    def get_available_partitions(self) -> list[str]:
        return list(_regions_of_partitions())

    def get_available_regions(self, service: str, partition_name: str = "aws") -> list[str]:
        return _regions_of_partitions()[partition_name].get(_prefix_of(service), [])


_REGIONS_ALONE = {"boto3": SimpleNamespace(Session=_Regions)}
# What modules of moto's get in the place of a module.
_INSTEAD: Mapping[str, Mapping[str, Any]] = {
    "moto.ec2.models.availability_zones_and_regions": _REGIONS_ALONE,
    # Its tables take 0.7 s and 60 MB; `headrace.moto.patches.ec2` loads the part that is asked for.
    "moto.ec2.models.instance_types": {
        "moto.utilities.utils": SimpleNamespace(load_resource=lambda _: {})
    },
    "moto.eks.utils": _REGIONS_ALONE,
    "moto.iam.config": _REGIONS_ALONE,
    "moto.s3control.config": _REGIONS_ALONE,
}


def _ignore_missing_socks(_: Any) -> None:
    """Do what the late code of `requests` does before its adapters are imported, which look for PySocks."""
    from urllib3.exceptions import DependencyWarning

    warnings.simplefilter("ignore", DependencyWarning)


@functools.cache
def watch_imports(patches: Patches) -> None:
    """Patch moto's modules in this process from now on, those that are imported already at once."""
    changes = {**patches.of_modules, "requests.models": (_ignore_missing_socks,)}
    sys.meta_path.insert(0, LateFinder(_LATER, _LATE, changes, _INSTEAD))
    for name, functions in patches.of_modules.items():
        if name in sys.modules:
            for patch in functions:
                patch(sys.modules[name])


@functools.cache
def patch_at_start(patches: Patches) -> None:
    """Apply the patches of the modules that moto has imported. The caller holds `IMPORTING`."""
    for patch in patches.at_start:
        patch()


def check_first(check: Callable[[Any], None], method: Any) -> Any:
    """Return a method of moto's responses that lets `check` look at the response before it runs; a check raises."""

    @functools.wraps(method)
    def check_then_run(self: Any) -> Any:
        check(self)
        return method(self)

    return check_then_run


def _as_arguments(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return members under moto's names of arguments and attributes."""
    return {xform_name(name): value for name, value in members.items()}


def assign(thing: Any, members: Mapping[str, Any], leave: Collection[str] = ()) -> None:
    """Set the attributes for the members of a request; an empty value empties the attribute."""
    for name, value in _as_arguments(members).items():
        if name not in leave and hasattr(thing, name) and value is not None:
            setattr(thing, name, value)


def recreate(make: Callable[..., Any], things: Any, key: str, members: Mapping[str, Any]) -> Any:
    """Create a resource again from these members alone, in place of the old one; return both."""
    before = things[key]
    arguments = _as_arguments(members)
    named = {name: arguments.get(name) for name in inspect.signature(make).parameters}
    del things[key]
    try:
        make(**named)
    except Exception:
        things[key] = before
        raise
    return before, things[key]


def create_wholly(backend: Any, method: str, held: str) -> None:
    """Make a backend's method remove what it added to its attribute `held` when it fails."""
    create = getattr(backend, method)

    @functools.wraps(create)
    def create_whole(self: Any, *args: Any, **named: Any) -> Any:
        before = set(getattr(self, held))
        try:
            return create(self, *args, **named)
        except Exception:
            for name in set(getattr(self, held)) - before:
                del getattr(self, held)[name]
            raise

    setattr(backend, method, create_whole)


def start_empty(patches: Patches) -> None:
    """Import and patch moto, and empty it. The caller holds moto's lock and the import lock."""
    watch_imports(patches)
    load_moto()
    patch_at_start(patches)
    from moto.core.base_backend import AccountSpecificBackend, BackendDict
    from moto.core.config import default_user_config

    # AWS managed policies (AdministratorAccess, ...) exist from the start, as on AWS.
    iam: Any = cast("Any", default_user_config)["iam"]
    iam["load_aws_managed_policies"] = True
    accounts: Any = AccountSpecificBackend
    accounts._generate_regions = regions_of  # noqa: SLF001 - botocore's list lacks regions that AWS has since
    backends: Any = BackendDict
    for instance in list(backends._instances):  # noqa: SLF001 - moto's own reset creates all of them first
        instance.clear()
    backends._instances.clear()  # noqa: SLF001


def regions_of(_: Any, service: str) -> list[str]:
    """Return all regions of a service, in every partition; those of EC2 too, which every region has."""
    prefix = _prefix_of(service)
    return [
        region
        for regions in _regions_of_partitions().values()
        for region in sorted({*regions.get(prefix, ()), *regions.get("ec2", ())})
    ]


def _prefix_of(service: str) -> str:
    try:
        metadata: Any = service_description(service)["metadata"]
    except UnknownServiceError:
        metadata = {}
    return cast("str", metadata.get("endpointPrefix", service))


@functools.cache
def _regions_of_partitions() -> dict[str, dict[str, list[str]]]:
    """Return the regions of each partition and endpoint prefix.

    botocore's sessions answer this too, and keep the whole file, which takes 25 MB, and each description a second time.
    """
    whole: Any = Loader(file_loader=LeanFiles()).load_data("endpoints")
    return {
        partition["partition"]: {
            prefix: [name for name in service["endpoints"] if name in partition["regions"]]
            for prefix, service in partition["services"].items()
        }
        for partition in whole["partitions"]
    }
