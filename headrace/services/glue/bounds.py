"""Glue: expressions of clients match in bounded time."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from headrace.core.patterns import MatchingBudget, MatchTooLong, PatternRefused, java_pattern
from headrace.core.wildcards import glob_matches

# Documented: API_GetPartitions. How many parsed expressions are kept; moto keeps all.
_MOST_PREDICATE_CHARACTERS = 2048
_MOST_PREDICATES = 256


def match_partitions_in_time(utils: ModuleType) -> None:
    """Match LIKE by wildcards instead of regular expressions, and bound the expressions."""
    like: Any = utils._Like

    def evaluate(self: Any, part_keys: Any, part_input: Any) -> bool:
        kind = str(self.ident.type_(part_keys))
        if kind in ("bigint", "int", "smallint", "tinyint"):
            raise _glue_refusal("Integral data type doesn't support operation 'LIKE'")
        if kind in ("date", "decimal", "timestamp"):
            raise _glue_refusal(f"{kind.capitalize()} data type doesn't support operation 'LIKE'")
        text = self.ident.eval(part_keys, part_input)
        pattern = str(utils._cast("string", self.literal))
        return glob_matches(pattern, str(text), any_run="%", any_one="_")

    like.eval = evaluate
    cache: Any = utils._PARTITION_FILTER_EXPRESSION_CACHE
    parse: Any = cache.get

    def parse_within_bounds(expression: str | None) -> Any:
        if expression is not None and len(expression) > _MOST_PREDICATE_CHARACTERS:
            raise _glue_refusal("Expression is longer than 2048 characters")
        if len(cache._cache) >= _MOST_PREDICATES:
            cache._cache.clear()
        try:
            return parse(expression)
        except RecursionError:
            raise _glue_refusal(f"Unsupported expression '{expression}'") from None

    cache.get = parse_within_bounds


def _glue_refusal(message: str) -> Exception:
    from moto.glue.exceptions import InvalidInputException

    return InvalidInputException("GetPartitions", message)


def match_tables_in_time(models: ModuleType) -> None:
    """Match the names of tables in bounded time."""
    backend: Any = models.GlueBackend
    get_tables: Any = backend.get_tables

    @functools.wraps(get_tables)
    def get_tables_in_time(self: Any, database_name: str, expression: str | None) -> Any:
        tables = get_tables(self, database_name, None)
        if not expression:
            return tables
        # As in moto: a star matches anything, and the expression matches the start of a name.
        text = expression.replace(".*", "*").replace("*", ".*")
        try:
            java_pattern(text)  # so that the reason quotes the client's text
            pattern = java_pattern(f"(?:{text}).*")
            budget = MatchingBudget()
            return [table for table in tables if pattern.matches(table.name, budget)]
        except (PatternRefused, MatchTooLong) as error:
            raise _glue_refusal(f"Expression cannot be used: {error or 'too complex'}") from error

    backend.get_tables = get_tables_in_time
