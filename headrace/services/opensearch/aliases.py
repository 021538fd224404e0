"""Which indexes a name means: aliases, changed together by `_aliases`, patterns, and lists of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from headrace.core.clock import Clock
from headrace.core.patterns import Wildcard
from headrace.services.opensearch.fields import (
    SearchError,
    bad_argument,
    no_index,
    not_supported,
    not_valid,
    unreadable,
)
from headrace.services.opensearch.store import Alias, Index, Store, check_name, invalid_name

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


_WRITE_HINT = (
    "The write index may be explicitly disabled using is_write_index=false or the alias points to multiple indices"
    " without one being designated as a write index"
)


@dataclass(frozen=True, slots=True)
class NameOptions:
    """What a request says of names that nothing matches: OpenSearch's parameters of the same names."""

    ignore_unavailable: bool = False
    allow_no_indices: bool = True

    @classmethod
    def of(cls, query: Mapping[str, str]) -> NameOptions:
        """Read them from a request's parameters. Raises SearchError."""
        return cls(
            flag(query, "ignore_unavailable", default=False),
            flag(query, "allow_no_indices", default=True),
        )


def flag(query: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return a boolean parameter; without a value it is true. Raises SearchError."""
    if name not in query:
        return default
    if query[name] not in ("", "true", "false"):
        raise bad_argument(
            f"Failed to parse value [{query[name]}] as only [true] or [false] are allowed."
        )
    return query[name] != "false"


class Names:
    """Finds indexes in a store. Thread-safe, as the store is."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def find_matching(
        self, domain: str, names: str, options: NameOptions | None = None
    ) -> list[Index]:
        """Return the indexes of names, aliases and patterns, by name. Raises SearchError for a missing plain name."""
        options = options or NameOptions()
        every = {index.name: index for index in self._store.indexes(domain)}
        targets: dict[str, set[str]] = {name: {name} for name in every}
        for alias in self._store.aliases(domain):
            targets.setdefault(alias.name, set()).add(alias.index)
        names_matched: set[str] = set()
        for name in names.split(","):
            if name == "_all" or "*" in name:
                pattern = pattern_of(name)
                matched = {i for t, of in targets.items() if pattern.matches(t) for i in of}
                if not matched and not options.allow_no_indices:
                    raise no_index(name)
                names_matched |= matched
            elif name in targets:
                names_matched |= targets[name]
            elif not options.ignore_unavailable:
                raise no_index(name)
        return [every[name] for name in sorted(names_matched)]

    def without_aliases(self, domain: str, names: str, options: NameOptions) -> list[Index]:
        """Return the indexes of names and patterns, which do not match aliases. Raises SearchError for an alias."""
        every = self._store.indexes(domain)
        aliases = {alias.name for alias in self._store.aliases(domain)}
        indexes: dict[str, Index] = {}
        for name in names.split(","):
            if name in aliases:
                raise bad_argument(
                    f"The provided expression [{name}] matches an alias,"
                    " specify the corresponding concrete indices instead."
                )
            pattern = pattern_of(name)
            matched = {index.name: index for index in every if pattern.matches(index.name)}
            is_pattern = name == "_all" or "*" in name
            excuse = options.allow_no_indices if is_pattern else options.ignore_unavailable
            if not matched and not excuse:
                raise no_index(name)
            indexes |= matched
        return [indexes[name] for name in sorted(indexes)]

    def one(self, domain: str, name: str) -> Index:
        """Return the index of a name or of an alias with one index. Raises SearchError."""
        index = self._store.find(domain, name)
        if index is not None:
            return index
        pointers = [alias.index for alias in self._store.aliases(domain, name)]
        if not pointers:
            raise no_index(name)
        if len(pointers) > 1:
            raise bad_argument(
                f"alias [{name}] has more than one index associated with it [{', '.join(pointers)}],"
                " can't execute a single index op"
            )
        return self._of(domain, pointers[0])

    def for_write(self, domain: str, name: str) -> Index:
        """Return the index that takes a write to a name: an alias's write index; a missing index is created.

        Raises SearchError.
        """
        index = self._store.find(domain, name)
        if index is not None:
            return index
        pointers = self._store.aliases(domain, name)
        if not pointers:
            return self._store.create(domain, name, {"properties": {}}, {}, self._clock.now_ms())
        target = write_index({alias.index: alias.writes for alias in pointers})
        if target is None:
            raise bad_argument(f"no write index is defined for alias [{name}]. {_WRITE_HINT}")
        return self._of(domain, target)

    def _of(self, domain: str, name: str) -> Index:
        index = self._store.find(domain, name)
        if index is None:
            raise no_index(name)
        return index


def write_index(pointers: Mapping[str, bool | None]) -> str | None:
    """Return the index that an alias writes to, from each index's `is_write_index`; None if there is none.

    It is the index with true, or the only one unless it says false.
    """
    chosen = [name for name, writes in pointers.items() if writes]
    if not chosen and len(pointers) == 1:
        chosen = [name for name, writes in pointers.items() if writes is None]
    return chosen[0] if chosen else None


def pattern_of(name: str) -> Wildcard:
    """Return a name with `*`, or `_all`, as a pattern."""
    return Wildcard(tuple(("*" if name == "_all" else name).split("*")))
