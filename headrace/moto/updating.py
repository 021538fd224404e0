"""Updates resources of moto's from the members of a request, and removes what a failed creation leaves."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

from botocore import xform_name


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
