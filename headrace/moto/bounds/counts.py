"""Bounds how many objects moto makes for one number in a request.

moto makes each instance, task or node in a loop, under the lock that all its services share: a request for a million
holds them all up for minutes. The codes are AWS's of the quota in question, the sentences are assumed.
"""

from __future__ import annotations

import builtins
import importlib
from collections.abc import Callable, Mapping
from types import ModuleType

Refuse = Callable[[str], Exception]


def _of_ec2(code: str) -> Refuse:
    def refuse(sentence: str) -> Exception:
        from moto.ec2.exceptions import EC2ClientError

        return EC2ClientError(code, sentence)

    return refuse


def _of_model(exception: str, code: str) -> Refuse:
    """Take a service's own class, by whose module moto finds the service's model."""

    def refuse(sentence: str) -> Exception:
        module, _, name = exception.rpartition(".")
        return getattr(importlib.import_module(module), name)(code, sentence)

    return refuse


def _of_batch(sentence: str) -> Exception:
    from moto.batch.exceptions import ClientException

    return ClientException(sentence)


def _of_json(code: str) -> Refuse:
    def refuse(sentence: str) -> Exception:
        from moto.core.exceptions import JsonRESTError

        return JsonRESTError(code, sentence)

    return refuse


# A module of moto's -> the most turns of each of its loops over a number, and the refusal. At least AWS's own quotas.
_LOOPS: Mapping[str, tuple[int, Refuse]] = {
    "moto.batch.models": (10_000, _of_batch),
    "moto.batch_simple.models": (10_000, _of_batch),
    "moto.dax.models": (11, _of_json("NodeQuotaForClusterExceededFault")),
    "moto.directconnect.models": (100, _of_json("DirectConnectClientException")),
    "moto.ec2.models.elastic_network_interfaces": (256, _of_ec2("PrivateIpAddressLimitExceeded")),
    "moto.ec2.models.hosts": (100, _of_ec2("HostLimitExceeded")),
    "moto.ec2.models.spot_requests": (100, _of_ec2("MaxSpotInstanceCountExceeded")),
    "moto.ecs.models": (
        100,
        _of_model("moto.ecs.exceptions.ECSException", "InvalidParameterException"),
    ),
    "moto.elasticache.models": (
        500,
        _of_model(
            "moto.elasticache.exceptions.ElastiCacheException", "NodeQuotaForClusterExceeded"
        ),
    ),
    "moto.memorydb.models": (500, _of_json("NodeQuotaForClusterExceededFault")),
    "moto.sagemaker.models": (
        10_000,
        _of_model("moto.sagemaker.exceptions.SagemakerClientError", "ResourceLimitExceeded"),
    ),
}


def bound_loops(module: ModuleType) -> None:
    """Refuse loops of too many turns in a module of `_LOOPS`."""
    most, refuse = _LOOPS[module.__name__]

    def bounded_range(*bounds: int) -> range:
        numbers = builtins.range(*bounds)
        # Its `len` is limited to what the machine can index.
        if numbers and abs(numbers[-1] - numbers[0]) // abs(numbers.step) >= most:
            raise refuse(f"The request asks for more than {most} at once.")
        return numbers

    vars(module)["range"] = bounded_range
