"""The evaluation against an independent model of it, on policies that hypothesis makes."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.permissions.decisions.explanations import explain
from headrace.permissions.policies.evaluate import evaluate
from headrace.permissions.policies.model import Access, NamedPolicy, Policies, Principal
from tests.unit.permissions.parties import ACCOUNT, JOHN, MAPPER, OTHER
from tests.unit.permissions.slow_model import Asked, Given, decide, matches

ACTIONS = st.sampled_from(["s3:Get", "s3:Put", "sqs:Get"])
ACTION_PATTERNS = st.sampled_from(["s3:Get", "S3:PUT", "s3:*", "*", "s3:?et", "*:Get", "sqs:G*t"])
RESOURCES = st.sampled_from(["arn:aws:s3:::a/x", "arn:aws:s3:::a/John/y", "arn:aws:s3:::b"])
RESOURCE_PATTERNS = st.sampled_from(
    [
        "*", "arn:aws:s3:::a/*", "arn:aws:s3:::?", "arn:aws:s3:::a/x", "arn:aws:s3:::a/${aws:username}/*",
        "arn:aws:s3:::a/${aws:PrincipalTag/team}", "arn:aws:s3:*/?",
    ]
)  # fmt: skip
KEYS = st.sampled_from(["aws:username", "aws:PrincipalTag/team", "s3:max-keys", "aws:TagKeys"])
TEXTS = st.sampled_from(["John", "x", "7", "7.0", "true", "${aws:username}", "J*", "?"])
OPERATORS = st.sampled_from(
    [
        f"{qualifier}{name}{suffix}"
        for qualifier in ("", "ForAllValues:", "ForAnyValue:")
        for name in ("StringEquals", "StringNotEquals", "StringLike", "StringNotLike", "Bool")
        for suffix in ("", "IfExists")
    ]
)  # fmt: skip


def one_or_more(strategy: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.one_of(strategy, st.lists(strategy, min_size=1, max_size=3))


CONDITIONS = st.one_of(
    st.just({}),
    st.dictionaries(
        OPERATORS, st.dictionaries(KEYS, one_or_more(TEXTS), min_size=1, max_size=2), max_size=2
    ),
    st.dictionaries(
        st.sampled_from(["NumericEquals", "NumericNotEquals", "NumericLessThan"]),
        st.dictionaries(st.just("s3:max-keys"), st.sampled_from(["7", "7.0", "8"]), min_size=1),
        max_size=2,
    ),
    st.fixed_dictionaries(
        {"Null": st.dictionaries(KEYS, st.sampled_from(["true", "false"]), min_size=1, max_size=1)}
    ),
)
NAMES = st.sampled_from(
    [
        "*", ACCOUNT, f"arn:aws:iam::{ACCOUNT}:root", JOHN.arn, MAPPER.arn, MAPPER.identity_arn, OTHER,
    ]
)  # fmt: skip
SPARED = st.lists(
    st.sampled_from([ACCOUNT, f"arn:aws:iam::{ACCOUNT}:root", JOHN.arn, MAPPER.arn, MAPPER.identity_arn]),
    min_size=1,
    max_size=5,
)  # fmt: skip


@st.composite
def statements(draw: st.DrawFn, *, with_principal: bool) -> dict[str, Any]:
    effect = draw(st.sampled_from(["Allow", "Allow", "Allow", "Deny"]))
    said: dict[str, Any] = {"Effect": effect, "Action": "*", "Resource": "*"}
    if draw(
        st.booleans()
    ):  # else every action on everything: most of what is drawn below fits no request
        said = {"Effect": effect}
        action = draw(st.sampled_from(["Action", "Action", "NotAction"]))
        said[action] = draw(one_or_more(ACTION_PATTERNS))
        resource = draw(st.sampled_from(["Resource", "Resource", "NotResource"]))
        said[resource] = draw(one_or_more(RESOURCE_PATTERNS))
        condition = draw(CONDITIONS)
        if condition:
            said["Condition"] = condition
    if with_principal:
        if draw(st.integers(0, 4)) == 0:
            said["NotPrincipal"] = {"AWS": draw(SPARED)}
        else:
            said["Principal"] = draw(
                st.one_of(st.just("*"), st.fixed_dictionaries({"AWS": one_or_more(NAMES)}))
            )
    return said  # fmt: skip


def documents(*, with_principal: bool = False) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "Version": st.just("2012-10-17"),
            "Statement": st.lists(
                statements(with_principal=with_principal), min_size=1, max_size=3
            ),
        }
    )


@st.composite
def questions(draw: st.DrawFn) -> tuple[Principal, Asked, Given]:
    principal = draw(st.sampled_from([JOHN, MAPPER]))
    keys: dict[str, list[str]] = {"aws:username": ["John"]} if principal is JOHN else {}
    if draw(st.booleans()):
        keys["s3:max-keys"] = [draw(st.sampled_from(["7", "7.0", "9"]))]
    if draw(st.booleans()):
        keys["aws:PrincipalTag/team"] = [draw(st.sampled_from(["x", "John"]))]
    if draw(st.booleans()):
        keys["aws:TagKeys"] = [draw(st.sampled_from(["x", "John"]))]
    asked = Asked(
        principal.kind, ACCOUNT, principal.arn, principal.identity_arn, draw(ACTIONS), draw(RESOURCES),
        draw(st.sampled_from([ACCOUNT, ACCOUNT, OTHER])), keys,
    )  # fmt: skip
    given = Given(
        draw(st.lists(documents(), max_size=2)),
        draw(st.one_of(st.none(), documents())),
        draw(st.one_of(st.none(), st.lists(documents(), max_size=2))),
        draw(st.one_of(st.none(), documents(with_principal=True))),
    )
    return principal, asked, given


def named(document: dict[str, Any]) -> NamedPolicy:
    return NamedPolicy.of("p", json.dumps(document))


def answer(principal: Principal, asked: Asked, given: Given) -> str:
    access = Access(
        asked.action,
        asked.resource,
        asked.resource_account,
        {key.lower(): tuple(values) for key, values in asked.keys.items()},
    )
    policies = Policies(
        tuple(map(named, given.identity)),
        None if given.boundary is None else named(given.boundary),
        None if given.session is None else tuple(map(named, given.session)),
        None if given.resource is None else named(given.resource),
    )
    explained = explain(principal, access, policies)
    decision = evaluate(principal, access, policies)
    assert explained.decision == decision
    assert decision.allowed == (not decision.sentence)
    assert {told.verdict for told in explained.statements} >= (
        {"denies"} if decision.effect == "explicit deny" else set()
    )
    return decision.effect


@given(questions())
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_it_decides_as_the_model_does(question: tuple[Principal, Asked, Given]) -> None:
    principal, asked, policies = question
    assert answer(principal, asked, policies) == decide(asked, policies)


ALLOWS, DENIES, SILENT = (
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": effect, "Action": action, "Resource": "*"}],
    }
    for effect, action in (("Allow", "*"), ("Deny", "*"), ("Allow", "sqs:*"))
)
NAMED = [
    "*", ACCOUNT, f"arn:aws:iam::{ACCOUNT}:root", JOHN.arn, MAPPER.arn, MAPPER.identity_arn, OTHER,
]  # fmt: skip


def of_resources() -> list[dict[str, Any] | None]:
    """Return every way in which a resource's policy names one principal, and spares one wholly or in part."""
    whole = [MAPPER.arn, MAPPER.identity_arn, ACCOUNT]
    speaks = [{"Principal": {"AWS": name}} for name in NAMED]
    speaks += [
        {"NotPrincipal": {"AWS": names}} for names in (whole, whole[:2], [JOHN.arn, ACCOUNT])
    ]
    found: list[dict[str, Any] | None] = [None]
    for effect in ("Allow", "Deny"):
        for of_whom in speaks:
            statement = {"Effect": effect, "Action": "*", "Resource": "*", **of_whom}
            found.append({"Version": "2012-10-17", "Statement": [statement]})
    return found


@pytest.mark.parametrize("principal", [JOHN, MAPPER], ids=["user", "role"])
def test_every_combination_of_layers_is_decided_as_the_model_does(principal: Principal) -> None:
    limits = [None, ALLOWS, DENIES, SILENT]
    combinations = itertools.product(
        [ALLOWS, DENIES, SILENT], limits, limits, of_resources(), [ACCOUNT, OTHER]
    )
    seen: set[str] = set()
    for identity, boundary, session, resource, account in combinations:
        asked = Asked(
            principal.kind, ACCOUNT, principal.arn, principal.identity_arn, "s3:Get", "arn:aws:s3:::b",
            account,
        )  # fmt: skip
        policies = Given([identity], boundary, None if session is None else [session], resource)
        expected = decide(asked, policies)
        assert answer(principal, asked, policies) == expected, (asked, policies)
        seen.add(expected)
    assert len(seen) == 3


@pytest.mark.slow
@given(questions())
@settings(max_examples=8_000, deadline=None, suppress_health_check=list(HealthCheck))
def test_it_decides_as_the_model_does_at_length(question: tuple[Principal, Asked, Given]) -> None:
    principal, asked, policies = question
    assert answer(principal, asked, policies) == decide(asked, policies)


@given(st.text("ab*?:", max_size=8), st.text("ab:", max_size=8))
@settings(max_examples=200, deadline=None)
def test_wildcards_match_as_every_way_of_matching_does(pattern: str, text: str) -> None:
    own = {"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "*", "Resource": pattern}}  # fmt: skip
    allowed = evaluate(JOHN, Access("s3:Get", text, ACCOUNT), Policies((named(own),))).allowed
    assert allowed == matches(pattern, text)
