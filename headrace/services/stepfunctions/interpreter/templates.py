"""Parameters, ResultSelector and ItemSelector of any JSON type, for moto's interpreter, whose grammar has only objects.

Parameters may be a number, text, list, boolean or null (documented: github.com/aws/amazon-states-language-service,
pull request 83); that the other two may be as well is assumed. `mark_expressions` wraps such a value in an object.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import functools
from typing import Any

from headrace.services.stepfunctions.query_languages import WRAPPED


def patch() -> None:
    """Unwrap the values after their evaluation. Called once, when moto's interpreter is imported."""
    from moto.stepfunctions.parser.asl.component.common import parargs, result_selector
    from moto.stepfunctions.parser.asl.component.state.exec.state_map import item_selector

    kinds: tuple[Any, ...] = (
        parargs.Parameters,
        result_selector.ResultSelector,
        item_selector.ItemSelector,
    )
    for kind in kinds:
        kind._eval_body = _unwrapped(kind._eval_body)


def _unwrapped(evaluate: Any) -> Any:
    @functools.wraps(evaluate)
    def eval_body(self: Any, env: Any) -> None:
        evaluate(self, env)
        value: Any = env.stack[-1]
        if isinstance(value, dict) and set(value) == {WRAPPED}:
            env.stack[-1] = value[WRAPPED]

    return eval_body
