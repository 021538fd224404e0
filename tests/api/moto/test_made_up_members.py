"""The calls of all declared types' stacks and updates take every member, and reads show it, or it is said why not.

Types by hand that call moto are tried too. Each call gets all members, with values made up from the model, and is taken
back; see `tests.support.made_up`.
What a service refuses of these values is in `made_up_refused.json`; what moto drops is *ignored* in its fidelity table
(`headrace/moto/tried_members.json`), by its path; of what no fitting read shows, `not_shown.json` says where it is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.services.iam.answers import moto_tables
from tests.api.cloudformation.test_declared import EXAMPLES, NAMED, changed_by
from tests.api.cloudformation.test_stacks import create, update
from tests.support.cloud import InProcessCloud
from tests.support.made_up import CODED, REFUSED_FILE, Trials

# The others' trials take more than three seconds each.
QUICK = (
    "apigateway",
    "apigatewayv2",
    "identity",
    "logs",
    "secrets",
    "stepfunctions",
)


@pytest.mark.parametrize(
    "group",
    [
        pytest.param(one, marks=[] if one in QUICK else [pytest.mark.slow])
        for one in ("coded", *EXAMPLES)
    ],
)
def test_every_member_is_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str
) -> None:
    trials = Trials(json.loads(REFUSED_FILE.read_text()), moto_tables())
    with InProcessCloud(tmp_path / "data") as cloud:
        trials.watch(monkeypatch, cloud)
        body: dict[str, Any] = {
            "Resources": CODED if group == "coded" else EXAMPLES[group]["resources"]
        }
        cfn = cloud.client("cloudformation")
        assert create(cfn, body, name=group, **NAMED) == "CREATE_COMPLETE"
    assert trials.failed == {}
    assert {name: paths for name, paths in trials.unseen.items() if paths} == {}


@pytest.mark.slow
@pytest.mark.parametrize("group", [name for name, example in EXAMPLES.items() if example["change"]])
def test_every_member_of_an_update_is_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str
) -> None:
    trials = Trials(json.loads(REFUSED_FILE.read_text()), moto_tables(), tries=False)
    with InProcessCloud(tmp_path / "data") as cloud:
        trials.watch(monkeypatch, cloud)
        cfn, resources = cloud.client("cloudformation"), EXAMPLES[group]["resources"]
        assert create(cfn, {"Resources": resources}, name=group, **NAMED) == "CREATE_COMPLETE"
        trials.tries = True
        body = {"Resources": changed_by(resources, EXAMPLES[group]["change"])}
        assert update(cfn, body, name=group, **NAMED) == "UPDATE_COMPLETE"
    assert trials.failed == {}
    assert {name: paths for name, paths in trials.unseen.items() if paths} == {}
