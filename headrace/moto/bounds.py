"""Bounds what one request makes moto do: how many objects it makes, how it parses parameters and YAML.

moto makes each instance, task or node in a loop, under the lock that all its services share: a request for a million
holds them all up for minutes. The codes are AWS's of the quota in question, the sentences are assumed.

Speeds up moto's parsing of query parameters: in time linear in their number.

moto scans all parameters again for each member of each list: 20,000 tags are a billion steps.

Parses the YAML that clients send to moto's services, in bounded time and space.

A few hundred bytes of aliases can expand to gigabytes when their values are walked or written out, and a merge key
copies them during parsing. So a document's values are counted with all aliases expanded before anything is built.
CloudFormation's templates have rules of their own: see `headrace.services.cloudformation.template.template_text`.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import builtins
import functools
import importlib
import itertools
from bisect import bisect_left
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from headrace.core.late_imports import imports_later

# It comes with the first document.
with imports_later({}, late={"yaml": {}}):
    import yaml

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


def patch_query_parser(parse: ModuleType) -> None:
    """Replace how `moto.core.parse` checks whether any parameter begins with a prefix."""
    parse.QueryParser._gonna_recurse = _has_none  # noqa: SLF001


def _has_none(self: Any, query_params: Mapping[str, Any], prefix: str) -> bool:
    """Whether no parameter begins with a name."""
    if not prefix:
        return False
    known: tuple[Any, list[str]] | None = vars(self).get("_names_in_order")
    if known is None or known[0] is not query_params:
        known = (query_params, sorted(query_params))
        vars(self)["_names_in_order"] = known
    in_order = known[1]
    index = bisect_left(in_order, prefix)
    return not (index < len(in_order) and in_order[index].startswith(prefix))


# API Gateway takes documents of 6 MB, SSM of 64 KB; the largest in use have some ten thousand values.
MOST_VALUES = 200_000
MOST_CHARACTERS = 20_000_000
MOST_NESTED = 100


@functools.cache
def _loader() -> Any:
    """Return libyaml's parser, which is twenty times as fast, where PyYAML has it."""
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def safe_load(text: Any) -> Any:
    """Return a document's value, as `yaml.safe_load` does. Raises yaml.YAMLError, also if it expands too far."""
    _check(text)
    return yaml.load(text, Loader=_loader())


def _check(text: Any) -> None:
    """Count the values, and their characters, with every alias expanded. Raises yaml.YAMLError."""
    values_of: dict[str, tuple[int, int]] = {}
    open_collections: list[tuple[str | None, int, int]] = []
    values = characters = 0
    for event in yaml.parse(text, Loader=_loader()):
        match event:
            case yaml.AliasEvent(anchor=anchor):
                if anchor not in values_of:
                    raise yaml.YAMLError(
                        f"the alias {anchor!r} refers to no value, or to one that contains it"
                    )
                values += values_of[anchor][0]
                characters += values_of[anchor][1]
            case yaml.ScalarEvent(anchor=anchor, value=value):
                values += 1
                characters += len(value)
                if anchor is not None:
                    values_of[anchor] = (1, len(value))
            case yaml.CollectionStartEvent(anchor=anchor):
                if anchor is not None:
                    values_of.pop(anchor, None)
                open_collections.append((anchor, values, characters))
                values += 1
                if len(open_collections) > MOST_NESTED:
                    raise yaml.YAMLError(f"nested more than {MOST_NESTED} levels deep")
            case yaml.CollectionEndEvent():
                anchor, before, characters_before = open_collections.pop()
                if anchor is not None:
                    values_of[anchor] = (values - before, characters - characters_before)
            case _:
                pass
        if values > MOST_VALUES:
            raise yaml.YAMLError(
                f"the document has more than {MOST_VALUES} values with its aliases expanded"
            )
        if characters > MOST_CHARACTERS:
            raise yaml.YAMLError(
                f"the document has more than {MOST_CHARACTERS} characters with its aliases expanded"
            )


def check_depth(value: Any) -> None:
    """Bound a JSON value as `safe_load` bounds a document. Raises yaml.YAMLError."""
    level = [value]
    for _ in range(MOST_NESTED + 1):
        inner = [
            one.values() if isinstance(one, dict) else one
            for one in level
            if isinstance(one, (dict, list))
        ]
        level = [*itertools.chain.from_iterable(inner)]
        if not level:
            return
    raise yaml.YAMLError(f"nested more than {MOST_NESTED} levels deep")


class _Yaml:
    """Replaces PyYAML in moto's modules, with another `safe_load`."""

    safe_load = staticmethod(safe_load)

    def __getattr__(self, name: str) -> Any:
        return getattr(yaml, name)


def patch_yaml(module: ModuleType) -> None:
    """Make a module of moto parse YAML in bounded time and space."""
    vars(module)["yaml"] = _Yaml()


def patch_api_documents(utils: ModuleType) -> None:
    """Do so in `moto.apigateway.utils`, and answer unparsable documents with 400 instead of 500."""
    from moto.apigateway.exceptions import BadRequestException

    patch_yaml(utils)
    deserialize: Any = utils.deserialize_body

    @functools.wraps(deserialize)
    def deserialize_body(body: str) -> Any:
        try:
            return deserialize(body)
        except (yaml.YAMLError, RecursionError) as error:
            line = " ".join(str(error).split())
            raise BadRequestException(f"Unable to parse API definition: {line}") from error

    vars(utils)["deserialize_body"] = deserialize_body
