"""Finds the indexes that a request names: by their names, by aliases, by patterns and lists of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.core.clock import Clock
from headrace.core.patterns import Wildcard
from headrace.services.opensearch.indexes.errors import bad_argument, no_index
from headrace.services.opensearch.indexes.store import Index, Store

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
