"""The names that moto's stored state may use, and what each stands for: an explicit list, wherever the code lies.

Classes of moto are listed in `moto_classes.txt`, by moto's names, with the methods that the state refers to. What is
headrace's own registers itself under a name of its own (`stored_as`); state from before names its old module, which
stays known. Everything else is a few plain types.

Says which names stored state uses that do not belong into it, without importing or constructing anything of them.
"""

from __future__ import annotations

import functools
import io
import pickle
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

# The module that stored names are in. No file has this name.
MODULE = "headrace_state"
# Where the code lay that wrote old data directories; these names must never change. Without the first word, so that a
# move of the packages does not change them.
_OLD_MODULES: Mapping[str, str] = {
    "fallback.kept.pickles": "kept.pickles",
    "fallback.kept.dictionaries": "kept.dictionaries",
    **{
        f"fallback.services.{name}": f"services.{name}"
        for name in (
            "cloudwatch", "dynamodb", "dynamodb_streams", "events", "glue", "iam", "logs", "sns", "sqs_messages", "ssm",
        )
    },
    "moto.storage.pickles": "kept.pickles",
    "moto.storage.dictionaries": "kept.dictionaries",
    **{
        f"services.{name}.patches": f"services.{name}"
        for name in ("cloudwatch", "dynamodb", "events", "glue", "iam", "logs", "sns", "ssm")
    },
    "services.dynamodb.streams": "services.dynamodb_streams",
    "services.sqs.messages": "services.sqs_messages",
}  # fmt: skip
# Their names -> the names of today.
_OLD_NAMES: Mapping[tuple[str, str], str] = {
    ("kept.pickles", "backend_at"): "backend",
    ("kept.pickles", "backend_dict"): "backends",
    ("kept.pickles", "backends_of_account"): "backends_of_account",
    ("kept.pickles", "known_factory"): "factory",
    ("kept.pickles", "bound_method"): "method",
    ("kept.pickles", "new_lock"): "lock",
    ("kept.pickles", "ended_thread"): "ended_thread",
    ("kept.pickles", "private_key"): "private_key",
    ("kept.pickles", "rows_with_id"): "rows",
    ("kept.dictionaries", "KeptDict"): "kept_dict",
    ("services.cloudwatch", "MetricData"): "cloudwatch_data",
    ("services.dynamodb", "empty_table"): "dynamodb_table",
    ("services.dynamodb", "TableRows"): "dynamodb_rows",
    ("services.dynamodb_streams", "StreamRows"): "dynamodb_stream_rows",
    ("services.events", "empty_archive"): "events_archive",
    ("services.events", "_Archived"): "events_archive_rows",
    ("services.glue", "PartitionRows"): "glue_partition_rows",
    ("services.iam", "_AwsPolicies"): "iam_aws_policies",
    ("services.iam", "_Policies"): "iam_policies",
    ("services.iam", "_Sessions"): "iam_session_rows",
    ("services.logs", "empty_group"): "logs_group",
    ("services.logs", "_Streams"): "logs_stream_rows",
    ("services.sns", "Nothing"): "sns_nothing",
    ("services.sqs_messages", "Messages"): "sqs_messages",
    ("services.sqs_messages", "FifoMessages"): "sqs_fifo_messages",
    ("services.ssm", "empty_parameters"): "ssm_parameters",
    ("services.ssm", "ParameterRows"): "ssm_parameter_rows",
}
# The plain types, by their names: they construct themselves of plain values only, and nobody can set their attributes.
PLAIN: Mapping[tuple[str, str], type] = {
    ("builtins", kind.__name__): kind
    for kind in (set, frozenset, list, dict, tuple, str, int, float, bool, object)
}
# Types whose values `shells` makes of their plain parts.
PLAIN_VALUES = frozenset(
    {
        ("collections", "OrderedDict"), ("collections", "defaultdict"), ("collections", "deque"),
        ("collections", "Counter"), ("datetime", "date"), ("datetime", "datetime"), ("datetime", "time"),
        ("datetime", "timedelta"), ("datetime", "timezone"), ("dateutil.tz.tz", "tzutc"),
        ("decimal", "Decimal"), ("ipaddress", "IPv4Address"), ("ipaddress", "IPv4Network"),
        ("ipaddress", "IPv6Address"), ("ipaddress", "IPv6Network"), ("re", "_compile"), ("uuid", "UUID"),
    }
)  # fmt: skip

Named = TypeVar("Named", bound=Callable[..., Any])
_stored: dict[str, Callable[..., Any]] = {}
# What is written -> its name.
_names: dict[Any, str] = {}


def stored_as(name: str) -> Callable[[Named], Named]:
    """Let a class or a function of headrace stand in the stored state under `name`, wherever it is defined."""

    def register(what: Named) -> Named:
        _stored[name] = what
        _names[what] = name
        return what

    return register


def name_of(what: Any) -> str | None:
    """Return the stored name of a class or a function of headrace; None when it has none."""
    return _names.get(what)


def stored(name: str) -> Callable[..., Any]:
    """Return what stands under a name. Raises `pickle.UnpicklingError` when nothing does."""
    stored_name = _stored.get(name)
    if stored_name is None:
        raise pickle.UnpicklingError(f"{name} is no part of moto's state")
    return stored_name


def named(name: str) -> Callable[..., Any]:
    """Stand in the stored bytes for `stored`: they call it by this name, and get a stand-in from `shells`."""
    return stored(name)


# The pickler writes where a function says that it is.
named.__module__ = MODULE
_module = types.ModuleType(
    MODULE, "The name by which the stored state of moto calls headrace's own."
)
vars(_module)["named"] = named
sys.modules[MODULE] = _module


def old_name(module: str, name: str) -> str:
    """Return today's name of what an old data directory calls by its module; empty when there is none."""
    package, _, rest = module.partition(".")
    if package != "headrace":
        return ""
    return _OLD_NAMES.get((_OLD_MODULES.get(rest, ""), name), "")


@functools.lru_cache(maxsize=4096)
def is_known(module: str, name: str) -> bool:
    """Whether the stored state may use a name; imports nothing of moto's."""
    return (
        (module, name) in PLAIN
        or (module, name) in PLAIN_VALUES
        or (module, name) == (MODULE, "named")
        or bool(old_name(module, name))
        or (name in moto_names(module) and "." not in name)
    )


# --- moto's classes -------------------------------------------------------------------------------


def moto_names(module: str) -> frozenset[str]:
    """Return the classes of one of moto's modules that the state may have, and their methods as `Class.method`."""
    return _moto_classes().get(module, frozenset())


@functools.cache
def _moto_classes() -> dict[str, frozenset[str]]:
    text = Path(__file__).with_name("moto_classes.txt").read_text()
    lines = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {module: frozenset(names) for module, *names in lines}


# The bytes with which pickled state begins; other rows hold JSON or MessagePack.
PICKLED = b"\x80"


class _Inert(dict[Any, Any]):
    """Stands for every object: takes whatever state sets, appends or adds, and does nothing."""

    def __new__(cls, *_: Any) -> _Inert:
        return dict.__new__(cls)

    def __init__(self, *_: Any) -> None:
        super().__init__()

    __hash__ = object.__hash__  # pyright: ignore[reportAssignmentType]

    def __setstate__(self, state: object) -> None:
        """Discard it."""

    def __call__(self, *_: Any) -> _Inert:
        return _Inert()

    def extend(self, items: Any) -> None:
        """Discard them."""

    append = add = extend


def _inert_class(*_: Any) -> type[_Inert]:
    """Stand for `stored_names.named` too: what it returns may be a class, of which state makes objects."""
    return type("Inert", (_Inert,), {})


class _Inspector(pickle.Unpickler):
    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.unknown: dict[str, None] = {}

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if not is_known(module_name, global_name):
            self.unknown[f"{module_name}.{global_name}"] = None
        if (module_name, global_name) == (MODULE, "named"):
            return _inert_class
        return _inert_class()


def foreign_names(data: bytes) -> Iterator[str]:
    """Yield the names in pickled state that it may not have, and last what keeps it from being read."""
    inspector, problem = _Inspector(data), ""
    try:
        inspector.load()
    except Exception as error:  # noqa: BLE001 - damaged or hostile bytes raise anything
        problem = f"what cannot be read ({type(error).__name__}: {error})"
    yield from inspector.unknown
    if problem:
        yield problem
