"""Makes the options of `headrace up` from the fields of `Config`: name, type, default and help are declared there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import click

from headrace.cli.options import NumberRange, fail
from headrace.core.config import Config, Setting

_F = TypeVar("_F", bound=Callable[..., Any])


def config_options(function: _F) -> _F:
    """Add an option for each setting of `Config`; its value comes under the field's name, as `Config` takes it."""
    hints = get_type_hints(Config, include_extras=True)
    for field in reversed(dataclasses.fields(Config)):
        hint = hints[field.name]
        if get_origin(hint) is Annotated:
            value_type, setting = get_args(hint)
            function = _option(field.name, value_type, field.default, setting)(function)
    return function


def _option(name: str, hint: Any, default: Any, setting: Setting) -> Callable[[_F], _F]:
    flag = setting.flag or "--" + name.replace("_", "-")
    details: dict[str, Any] = {"help": setting.help, "envvar": setting.variable or None}
    if hint is bool:
        return click.option(flag, name, is_flag=True, **details)
    if get_origin(hint) is tuple:
        hint, details["multiple"] = get_args(hint)[0], True
    else:
        details["default"] = default
    return click.option(
        flag,
        name,
        type=_click_type(hint, setting),
        # A value that is empty has its own words in the help.
        show_default=bool(default),
        metavar=setting.metavar or None,
        callback=_converter(setting),
        **details,
    )


def _click_type(hint: Any, setting: Setting) -> click.ParamType[Any]:
    if get_origin(hint) is Literal:
        return click.Choice(list(get_args(hint)))
    if setting.bounds is not None:
        in_range = NumberRange if setting.option_type is float else click.IntRange
        return in_range(*setting.bounds)
    if hint is Path:
        return click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path)
    if Path in get_args(hint):
        return click.Path(dir_okay=False, path_type=Path)
    return click.STRING


def _converter(setting: Setting) -> Callable[[click.Context, click.Parameter, Any], Any] | None:
    convert = setting.convert
    if convert is None:
        return None

    def callback(_: click.Context, _option: click.Parameter, value: Any) -> Any:
        try:
            return convert(value)
        except ValueError as error:
            raise fail(str(error)) from error

    return callback
