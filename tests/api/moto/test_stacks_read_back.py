"""What the stacks of all declared types give to moto's services is read back, call by call, or it is said why not.

The examples are those of tests/api/cloudformation/declared. `not_read_back.json` has what AWS's own reads do not show.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.services.iam.answers import moto_tables
from tests.api.cloudformation.test_declared import EXAMPLES, NAMED
from tests.api.cloudformation.test_stacks import create
from tests.support.cloud import InProcessCloud
from tests.support.read_whole import Recorder, unread

FILE = Path(__file__).with_name("not_read_back.json")
EXPLAINED: dict[str, dict[str, str]] = json.loads(FILE.read_text())


@pytest.mark.parametrize(
    "group",
    [
        pytest.param(group, marks=[pytest.mark.slow] if group in ("compute", "edge") else [])
        for group in EXAMPLES
    ],
)
def test_what_a_stack_gives_is_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str
):
    recorder = Recorder()
    with InProcessCloud(tmp_path / "data") as cloud:
        recorder.watch(monkeypatch)
        body: dict[str, Any] = {"Resources": EXAMPLES[group]["resources"]}
        cfn = cloud.client("cloudformation")
        assert create(cfn, body, name=group, **NAMED) == "CREATE_COMPLETE"
        calls = list(recorder.calls)
        missing = unread(cloud.cloud.gateway, calls, moto_tables())
    unexplained = {
        name: [path for path in paths if path not in EXPLAINED.get(name, {})]
        for name, paths in missing.items()
    }
    assert {name: paths for name, paths in unexplained.items() if paths} == {}
