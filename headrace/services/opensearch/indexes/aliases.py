"""Aliases of OpenSearch's REST API: names for one or more indexes, changed together by `_aliases`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from headrace.services.opensearch.indexes.errors import (
    SearchError,
    bad_argument,
    not_supported,
    not_valid,
    unreadable,
)
from headrace.services.opensearch.indexes.names import NameOptions, Names, pattern_of
from headrace.services.opensearch.indexes.store import Alias, Index, Store, check_name, invalid_name

_ADD_MEMBERS = frozenset({"index", "indices", "alias", "aliases", "is_write_index"})
_REMOVE_MEMBERS = frozenset({"index", "indices", "alias", "aliases", "must_exist"})
_UNSUPPORTED = frozenset({"filter", "routing", "index_routing", "search_routing", "is_hidden"})


class AliasApi:
    """Reads and changes aliases. Thread-safe, as the store is."""

    def __init__(self, store: Store, names: Names) -> None:
        self._store = store
        self._names = names

    # --- reads --------------------------------------------------------------------------------

    def of_indexes(self, domain: str) -> dict[str, dict[str, Any]]:
        """Return each index's aliases in the form of answers; an index without aliases is absent."""
        by_index: dict[str, dict[str, Any]] = {}
        for alias in self._store.aliases(domain):
            by_index.setdefault(alias.index, {})[alias.name] = _properties(alias)
        return by_index

    def get(self, domain: str, indexes: Sequence[Index], names: str) -> tuple[int, dict[str, Any]]:
        """Return status and answer of `_alias`: the aliases of `indexes` that match `names` (empty for all).

        Without names, indexes without aliases are in the answer too. A plain name that nothing matches makes a 404,
        with what the other names match.
        """
        every = self.of_indexes(domain)
        answer: dict[str, Any] = {}
        missing = {n for n in names.split(",") if n and n != "_all" and "*" not in n}
        patterns = [pattern_of(name) for name in names.split(",") if name]
        for index in indexes:
            aliases = every.get(index.name, {})
            shown = {
                name: properties
                for name, properties in aliases.items()
                if not names or any(pattern.matches(name) for pattern in patterns)
            }
            missing -= set(shown)
            if shown or not names:
                answer[index.name] = {"aliases": shown}
        if not missing:
            return 200, answer
        word = "alias" if len(missing) == 1 else "aliases"
        reason = f"{word} [{','.join(sorted(missing))}] missing"
        return 404, {"error": reason, "status": 404, **answer}

    def rows(self, domain: str, names: str) -> list[dict[str, str]]:
        """Return the rows of `_cat/aliases`; `names` may be empty."""
        patterns = [pattern_of(name) for name in names.split(",") if name]
        return [
            {
                "alias": alias.name,
                "index": alias.index,
                "filter": "-",
                "routing.index": "-",
                "routing.search": "-",
                "is_write_index": "-" if alias.writes is None else str(alias.writes).lower(),
            }
            for alias in self._store.aliases(domain)
            if not patterns or any(pattern.matches(alias.name) for pattern in patterns)
        ]

    # --- changes ------------------------------------------------------------------------------

    def change(self, domain: str, body: Mapping[str, Any]) -> None:
        """Run the actions of `_aliases`, all or none. Raises SearchError."""
        actions: Any = body.get("actions")
        if not isinstance(actions, list) or not actions:
            raise not_valid("Must specify at least one alias action")
        with self._store.database.transaction():
            for action in cast("list[Any]", actions):
                if not isinstance(action, dict) or len(cast("dict[str, Any]", action)) != 1:
                    raise unreadable("[alias_action] expects an object with one action")
                ((kind, members),) = cast("dict[str, Any]", action).items()
                if not isinstance(members, dict):
                    raise unreadable(f"[{kind}] is no object")
                self._run(domain, kind, cast("dict[str, Any]", members))

    def _run(self, domain: str, kind: str, members: Mapping[str, Any]) -> None:
        if kind == "add":
            _check_members(kind, members, _ADD_MEMBERS)
            for name in _alias_names(kind, members):
                self.add(domain, self._indexes(domain, kind, members), name, members)
        elif kind == "remove":
            _check_members(kind, members, _REMOVE_MEMBERS)
            must_exist = members.get("must_exist", True)
            indexes = self._indexes(domain, kind, members)
            names = ",".join(_alias_names(kind, members))
            self.remove(domain, indexes, names, must_exist=must_exist is not False)
        elif kind == "remove_index":
            _check_members(kind, members, frozenset({"index", "indices"}))
            for index in self._indexes(domain, kind, members):
                self._store.drop(index)
        else:
            raise unreadable(f"[alias_action] unknown field [{kind}]")

    def _indexes(self, domain: str, kind: str, members: Mapping[str, Any]) -> list[Index]:
        names = _texts(members, "index", "indices")
        if not names:
            raise unreadable(f"One of [index] or [indices] is required for [{kind}]")
        return self._names.without_aliases(domain, ",".join(names), NameOptions())

    def add(
        self, domain: str, indexes: Sequence[Index], name: str, members: Mapping[str, Any]
    ) -> None:
        """Point an alias at indexes, with its properties `members`. Raises SearchError."""
        for member in members:
            if member in _UNSUPPORTED:
                raise not_supported(f"[{member}] of an alias")
        writes = members.get("is_write_index")
        if writes is not None and not isinstance(writes, bool):
            raise unreadable("[is_write_index] is no boolean")
        check_name(name, "alias")
        with self._store.database.transaction():
            if self._store.find(domain, name) is not None:
                raise invalid_name("alias", name, "an index exists with the same name as the alias")
            for index in indexes:
                self._store.put_alias(domain, name, index, writes=writes)
            _check_write_indexes(name, self._store.aliases(domain, name))

    def remove(
        self, domain: str, indexes: Sequence[Index], names: str, *, must_exist: bool = True
    ) -> None:
        """Remove the aliases of `indexes` that match names and patterns. Raises SearchError if none does."""
        patterns = [pattern_of(name) for name in names.split(",")]
        by_name = {index.name: index for index in indexes}
        removed = [
            alias
            for alias in self._store.aliases(domain)
            if alias.index in by_name and any(pattern.matches(alias.name) for pattern in patterns)
        ]
        if not removed and must_exist:
            raise SearchError(
                404,
                "aliases_not_found_exception",
                f"aliases [{names}] missing",
                **{"resource.type": "aliases", "resource.id": names},
            )
        with self._store.database.transaction():
            for alias in removed:
                self._store.remove_alias(domain, alias.name, by_name[alias.index])


def _properties(alias: Alias) -> dict[str, Any]:
    return {} if alias.writes is None else {"is_write_index": alias.writes}


def _check_write_indexes(name: str, pointers: Sequence[Alias]) -> None:
    writing = [alias.index for alias in pointers if alias.writes]
    if len(writing) > 1:
        raise SearchError(
            500,
            "illegal_state_exception",
            f"alias [{name}] has more than one write index [{','.join(writing)}]",
        )


def _check_members(kind: str, members: Mapping[str, Any], known: frozenset[str]) -> None:
    for member in members:
        if member in _UNSUPPORTED:
            raise not_supported(f"[{member}] of an alias")
        if member not in known:
            raise unreadable(f"[{kind}] unknown field [{member}]")


def _alias_names(kind: str, members: Mapping[str, Any]) -> list[str]:
    names = _texts(members, "alias", "aliases")
    if not names:
        raise bad_argument(f"One of [alias] or [aliases] is required for [{kind}]")
    return names


def _texts(members: Mapping[str, Any], one: str, many: str) -> list[str]:
    """Return the names in a member for one and a member for a list. Raises SearchError."""
    values: list[Any] = [members[one]] if one in members else []
    listed: Any = members.get(many, [])
    values += cast("list[Any]", listed) if isinstance(listed, list) else [listed]
    if any(not isinstance(value, str) or not value for value in values):
        raise unreadable(f"[{one}] or [{many}] can't be empty, and is text")
    return cast("list[str]", values)
