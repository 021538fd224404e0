"""A late dataclass behaves as the standard library's: over random fields, options, and calls."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.late_dataclasses import compiled_when_used, late

NAMES = ("a", "b", "c")
FIELDS: dict[str, Callable[[], dict[str, Any]]] = {
    "plain": dict,
    "default": lambda: {"default": 7},
    "factory": lambda: {"default_factory": list},
    "hidden": lambda: {"default": 8, "repr": False, "compare": False},
    "not given": lambda: {"default": 9, "init": False},
    "by name": lambda: {"kw_only": True},
}
OPTIONS = st.fixed_dictionaries({name: st.booleans() for name in ("frozen", "slots", "kw_only")})
CALLS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 1), max_size=3),
        st.dictionaries(st.sampled_from((*NAMES, "other")), st.integers(0, 1), max_size=3),
    ),
    min_size=2,
    max_size=4,
)
KINDS = st.lists(st.sampled_from(list(FIELDS)), min_size=1, max_size=3)


def class_of(
    kinds: list[str], *, has_post_init: bool, text: str | None = "Some text."
) -> type[Any]:
    """Return a class with a field of each of these kinds, before it is a dataclass."""
    body: dict[str, Any] = {
        "__module__": __name__,
        "__qualname__": "Made",
        "__doc__": text,
        "__annotations__": dict.fromkeys(NAMES[: len(kinds)], "int | list[int]"),
    }
    for name, kind in zip(NAMES, kinds, strict=False):
        if kind != "plain":
            body[name] = dataclasses.field(**FIELDS[kind]())
    if has_post_init:
        body["__post_init__"] = _refuse_two_ones
    return type("Made", (), body)


def _refuse_two_ones(self: Any) -> None:
    if getattr(self, "a", None) == 1 == getattr(self, "b", None):
        raise ValueError("two ones")


def outcome(call: Callable[[], Any]) -> Any:
    """Return what a call gives, or its error."""
    try:
        return call()
    except (TypeError, ValueError, AttributeError) as error:
        return type(error), str(error)


def seen(cls: type[Any], calls: list[Any]) -> list[Any]:
    """Return all that a user sees of a class: its objects, compared, shown, changed, copied and stored."""
    objects = [outcome(lambda call=call: cls(*call[0], **call[1])) for call in calls]
    made = [item for item in objects if isinstance(item, cls)]
    names = [field.name for field in dataclasses.fields(cls)]
    seen: list[Any] = [item for item in objects if not isinstance(item, cls)]
    seen += [outcome(lambda x=x, y=y: x == y) for x in made for y in made]
    for item in made:
        for look in (repr, hash, dataclasses.asdict, lambda item: repr(copy.copy(item))):
            seen.append(outcome(lambda item=item, look=look: look(item)))
        seen += [outcome(lambda item=item: repr(dataclasses.replace(item, a=3)))]
        seen += [item == 5, outcome(lambda item=item: copy.deepcopy(item) == item)]
        state = outcome(lambda item=item: item.__reduce_ex__(4)[2])
        seen.append(state)
        seen += [outcome(lambda item=item, name=name: setattr(item, name, 4)) for name in names]
        seen += [outcome(lambda item=item: delattr(item, "a")), outcome(lambda item=item: item.a)]
    seen += [cls.__match_args__, cls.__name__, cls.__qualname__, cls.__doc__, cls.__module__]
    seen += [names, repr(cls.__dataclass_params__)]
    init: Any = cls.__init__
    seen += [str(inspect.signature(cls)), init.__annotations__, init.__qualname__, init.__module__]
    return seen


@given(KINDS, st.booleans(), st.sampled_from(["Some text.", None]), OPTIONS, CALLS)
def test_is_as_the_standard_librarys(
    kinds: list[str],
    has_post_init: bool,
    text: str | None,
    options: dict[str, bool],
    calls: list[Any],
) -> None:
    def class_to_make() -> type[Any]:
        return class_of(kinds, has_post_init=has_post_init, text=text)

    standard_class = outcome(lambda: dataclasses.dataclass(class_to_make(), **options))
    if not isinstance(standard_class, type):
        # A field without a default after one with: no class of this form exists in headrace.
        return
    late_class = late(class_to_make(), **options)
    assert seen(late_class, calls) == seen(standard_class, calls)


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """Two numbers."""

    x: int
    y: int = 2


def test_what_pickle_kept_of_one_is_read_by_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = pickle.dumps(Point(1))
    body = {"__module__": __name__, "__qualname__": "Point", "__doc__": "Two numbers.", "y": 2}
    annotations = {"__annotations__": {"x": "int", "y": "int"}}
    late_point = late(type("Point", (), {**body, **annotations}), frozen=True, slots=True)
    standard_point = Point
    monkeypatch.setattr(sys.modules[__name__], "Point", late_point)
    assert pickle.loads(kept) == late_point(1)
    kept = pickle.dumps(late_point(5, 6))
    monkeypatch.setattr(sys.modules[__name__], "Point", standard_point)
    assert pickle.loads(kept) == standard_point(5, 6)


def test_its_functions_are_described_as_the_standard_librarys() -> None:
    kinds = ["plain", "default", "by name"]
    made = [build(class_of(kinds, has_post_init=False)) for build in (late, dataclasses.dataclass)]
    for describe in (
        inspect.signature,
        lambda cls: inspect.signature(cls.__init__),
        lambda cls: get_type_hints(cls.__init__),
        lambda cls: cls.__init__.__qualname__,
        lambda cls: outcome(cls),
    ):
        assert describe(made[0]) == describe(made[1])
    assert inspect.signature(late(class_of(kinds, has_post_init=False))) == inspect.signature(
        made[1]
    )


def test_what_stands_in_for_a_function_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    cls = late(class_of(["plain"], has_post_init=False))
    shown = cls.__dict__["__repr__"]
    monkeypatch.setattr(cls, "__repr__", lambda self: f"not {shown.__get__(self, cls)()}")
    assert [repr(cls(1)), repr(cls(1))] == ["not Made(a=1)"] * 2
    assert cls(1) == cls(1)


def test_threads_may_make_the_first_objects_at_the_same_time() -> None:
    for _ in range(50):
        cls = late(class_of(["plain", "default"], has_post_init=True), frozen=True, slots=True)
        together = threading.Barrier(4)

        def make(number: int, cls: type[Any] = cls, together: threading.Barrier = together) -> Any:
            together.wait(10)
            one = cls(number)
            return one == cls(number), hash(one) == hash(cls(number)), repr(one)

        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(make, range(4))) == [
                (True, True, f"Made(a={number}, b=7)") for number in range(4)
            ]


def test_a_class_may_inherit_from_a_late_one() -> None:
    base = late(class_of(["plain"], has_post_init=False), frozen=True, slots=True)

    @dataclasses.dataclass(frozen=True, slots=True)
    class Wider(base):
        b: int = 2

    assert repr(Wider(1)) == f"{Wider.__qualname__}(a=1, b=2)"
    with pytest.raises(dataclasses.FrozenInstanceError):
        Wider(1).a = 5
    assert base(1) == base(1)


def test_only_modules_that_are_imported_in_the_context_get_late_ones() -> None:
    with compiled_when_used():
        of_another_package = dataclasses.dataclass(class_of(["plain"], has_post_init=False))
    assert of_another_package.__init__.__code__.co_varnames == ("self", "a")
    assert dataclasses.dataclass.__module__ == "dataclasses"


def test_what_is_not_a_field_is_left_to_the_standard_library() -> None:
    for annotation in ("ClassVar[int]", "dataclasses.InitVar[int]", "KW_ONLY", int):
        cls = class_of(["plain"], has_post_init=False)
        cls.__module__ = late.__module__
        cls.__annotations__["b"] = annotation
        with compiled_when_used():
            made = dataclasses.dataclass(cls)
        assert inspect.isfunction(made.__dict__["__init__"])


def run(program: str) -> str:
    """Return what a program prints after it has imported a cloud as `headrace up` does."""
    begin = "from headrace.store.memory import import_to_stay; import_to_stay('headrace.cloud')\n"
    done = subprocess.run(
        [sys.executable, "-c", begin + program], capture_output=True, check=True, text=True
    )
    return done.stdout


def test_a_cloud_starts_with_late_ones() -> None:
    program = (
        "from headrace.services.kinesis.state import Stream\n"
        "print({type(Stream.__dict__[name]).__module__ for name in ('__init__', '__dataclass_fields__')})"
    )
    assert run(program) == "{'headrace.core.late_dataclasses'}\n"


def test_the_standard_library_makes_all_of_a_clouds() -> None:
    program = (
        "import dataclasses, inspect, sys\n"
        "found = {one for name in list(sys.modules) if name.startswith('headrace.')\n"
        "    for one in vars(sys.modules[name]).values() if isinstance(one, type) and dataclasses.is_dataclass(one)}\n"
        "for one in found: dataclasses.fields(one), inspect.signature(one), one.__eq__, one.__match_args__\n"
        "print(len(found) > 300)"
    )
    assert run(program) == "True\n"
