"""SSM: stores parameters as rows by name, and applies AWS's limits on their values.

Filters match in bounded time, documents are read within bounds, and parameters match their AllowedPattern.

Source: https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_PutParameter.html (documented);
the sentences were observed.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import types
from collections import defaultdict
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from headrace.core.patterns import MatchTooLong, PatternRefused, java_pattern
from headrace.moto.bounds import patch_yaml
from headrace.moto.storage import pickles
from headrace.moto.storage.changes import CHANGES, RowKey, Rows
from headrace.moto.storage.stored_names import stored_as


def patch_parameters(models: ModuleType) -> None:
    """Make `moto.ssm.models` refuse values that do not match the parameter's AllowedPattern."""
    from moto.ssm.exceptions import SSMException

    backend: Any = models.SimpleSystemManagerBackend
    put: Any = backend.put_parameter

    @functools.wraps(put)
    def put_checked(
        self: Any, name: str, description: str, value: str, *args: Any, **named: Any
    ) -> Any:
        allowed = args[1] if len(args) > 1 else named.get("allowed_pattern")
        refusal = refusal_of(value or "", allowed)
        if refusal is not None:
            raise SSMException(*refusal)
        return put(self, name, description, value, *args, **named)

    backend.put_parameter = put_checked


def refusal_of(value: str, allowed_pattern: str | None) -> tuple[str, str] | None:
    """Return AWS's (code, message) for a value that does not match the pattern, or None."""
    if not allowed_pattern:
        return None
    try:
        matches = java_pattern(allowed_pattern).matches(value)
    except PatternRefused as error:
        return (
            "InvalidAllowedPatternException",
            f"The request does not meet the regular expression requirement: {error}",
        )
    except MatchTooLong:
        return (
            "InvalidAllowedPatternException",
            "The request does not meet the regular expression requirement: the pattern is too complex",
        )
    if not matches:
        return (
            "ParameterPatternMismatchException",
            f"Parameter value, cannot be validated against allowedPattern: {allowed_pattern}",
        )
    return None


def apply_bounds(models: ModuleType) -> None:
    """Match filters in bounded time, and read documents within bounds."""
    patch_parameters(models)
    patch_yaml(models)


# Documented: 4 KB in the standard tier, 8 KB in the advanced; AWS's sentences say characters.
MOST_STANDARD = 4096
MOST_ADVANCED = 8192


class _Ec2Later:
    """Loads EC2's backends when SSM needs them, in one operation: importing EC2 takes a second and 100 MB."""

    def __getitem__(self, account: str) -> Any:
        return importlib.import_module("moto.ec2.models").ec2_backends[account]


def _import_without_ec2() -> None:
    if "moto.ec2" in sys.modules:
        importlib.import_module("moto.ssm.models")
        return
    stand_in: Any = types.ModuleType("moto.ec2")
    stand_in.ec2_backends = _Ec2Later()
    sys.modules["moto.ec2"] = stand_in
    try:
        importlib.import_module("moto.ssm.models")
    finally:
        del sys.modules["moto.ec2"]


@functools.cache
def patch() -> None:
    """Replace moto's methods, once. The caller holds `IMPORTING`."""
    _import_without_ec2()
    from moto.ssm.models import ParameterDict, SimpleSystemManagerBackend

    parameters: Any = ParameterDict
    parameters.__init__ = _with_rows(ParameterDict.__init__)
    parameters.__getitem__ = _note_name(ParameterDict.__getitem__)
    parameters.__delitem__ = _note_name(ParameterDict.__delitem__)
    parameters.pop = _note_name(ParameterDict.pop)
    backend: Any = SimpleSystemManagerBackend
    backend.put_parameter = _bound_put(SimpleSystemManagerBackend.put_parameter)
    pickles.register_factory(
        "moto.ssm.models",
        "SimpleSystemManagerBackend.__init__.<locals>.<lambda>",
        _tags,
    )
    pickles.register_reducer(ParameterDict, _reduce)


def _tags() -> defaultdict[str, dict[str, str]]:
    return defaultdict(dict)


@stored_as("ssm_parameter_rows")
class ParameterRows(Rows):
    """The versions of each parameter, by its name."""

    service = "ssm"
    parameters: Any

    def encode_row(self, key: Any) -> bytes | None:
        """See `Rows.encode_row`."""
        versions = dict.get(self.parameters, key)
        return pickles.dump(versions) if versions else None

    def keys(self) -> Iterable[Any]:
        """See `Rows.keys`."""
        # AWS's own parameters are created again.
        return [name for name in dict(self.parameters) if not name.startswith("/aws/")]

    def load(self, rows: Iterable[tuple[RowKey, bytes]]) -> None:
        """See `Rows.load`."""
        for key, value in rows:
            dict.__setitem__(self.parameters, key, pickles.load(value))


def _with_rows(init: Any) -> Any:
    @functools.wraps(init)
    def with_rows(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        self.kept = ParameterRows()
        self.kept.parameters = self

    return with_rows


def _note_name(method: Any) -> Any:
    @functools.wraps(method)
    def call_and_note(self: Any, name: str, *args: Any) -> Any:
        # Callers change the list of versions in place.
        if CHANGES.is_watching and not str(name).startswith("/aws/"):
            CHANGES.row(self.kept, self.normalize_name(name))
        return method(self, name, *args)

    return call_and_note


def _reduce(parameters: Any) -> Any:
    pickles.note_rows(parameters.kept)
    return empty_parameters, (parameters.account_id, parameters.region_name, parameters.kept.id)


@stored_as("ssm_parameters")
def empty_parameters(account: str, region: str, rows_id: int) -> Any:
    """Return a backend's parameters, whose rows are still to be loaded."""
    from moto.ssm.models import ParameterDict

    parameter_dict: Any = ParameterDict(account, region)
    rows = pickles.rows_with_id(ParameterRows, rows_id)
    assert isinstance(rows, ParameterRows)
    parameter_dict.kept, rows.parameters = rows, parameter_dict
    return parameter_dict


def _bound_put(put: Any) -> Any:
    signature = inspect.signature(put)

    @functools.wraps(put)
    def put_parameter(self: Any, name: str, *args: Any, **named: Any) -> Any:
        arguments = signature.bind(self, name, *args, **named).arguments
        parameters = self._parameters
        versions = dict.get(parameters, parameters.normalize_name(name)) or ()
        tier = _tier(
            arguments, versions[-1].tier if versions else None, self.default_parameter_tier
        )
        arguments["tier"] = tier
        return put(**arguments)

    return put_parameter


def _tier(parameters: dict[str, Any], known: str | None, default: str) -> str | None:
    """Return the tier of a value. Raises AWS's ValidationException when the value is too long."""
    from moto.ssm.exceptions import ValidationException

    tier, value = parameters.get("tier"), parameters.get("value") or ""
    count = len(value.encode("utf-8", "surrogatepass"))
    tier_asked = tier or known or default
    if tier_asked == "Intelligent-Tiering":
        is_large = (
            len(value) > MOST_STANDARD or bool(parameters.get("policies")) or known == "Advanced"
        )
        tier = tier_asked = "Advanced" if is_large else "Standard"
    if tier_asked == "Advanced":
        if count > MOST_ADVANCED:
            raise ValidationException(
                "Advanced tier parameters support a maximum parameter value of"
                f" {MOST_ADVANCED} characters."
            )
    elif count > MOST_STANDARD:
        raise ValidationException(
            f"Standard tier parameters support a maximum parameter value of {MOST_STANDARD} characters."
            " To create a larger parameter value, upgrade the parameter to use the advanced-parameter"
            " tier. For more information, see https://docs.aws.amazon.com/systems-manager/latest/"
            "userguide/parameter-store-advanced-parameters.html"
        )
    # AWS's sentence is this one when the parameter already is in the advanced tier.
    return "Advanced" if tier_asked == "Advanced" else tier
