"""The functions that make what moto's dictionaries lack: a service that has one is stored, not journalled."""

from __future__ import annotations

import ast
import importlib
import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from headrace.moto.storage import pickles
from tests.support.moto_lab import MotoLab

START_S = 1_795_946_280
TRACE = f"1-{START_S:08x}-{'a' * 24}"


def test_lake_formation_and_x_ray_are_stored_and_read(tmp_path: Path):
    segment = {"name": "s", "id": "b" * 16, "trace_id": TRACE}
    segment |= {"start_time": START_S, "end_time": START_S + 1}
    with MotoLab(tmp_path / "moto") as lab:
        lab.client("xray").put_trace_segments(TraceSegmentDocuments=[json.dumps(segment)])
        lab.client("lakeformation").register_resource(
            ResourceArn="arn:aws:s3:::b", RoleArn="arn:aws:iam::1:role/r"
        )
        usual = lab.client("lakeformation").get_data_lake_settings()["DataLakeSettings"]
        services = {name for (name,) in lab.database.query("SELECT service FROM fallback_services")}
        assert services >= {"lakeformation", "xray"}
        assert lab.database.query("SELECT count(*) FROM fallback_journal") == [(0,)]
    for round_number in range(2):  # what was read can be stored again
        with MotoLab(tmp_path / "moto") as lab:
            (trace,) = lab.client("xray").batch_get_traces(TraceIds=[TRACE])["Traces"]
            assert json.loads(trace["Segments"][0]["Document"]) == segment
            again = {**segment, "id": str(round_number) * 16, "trace_id": TRACE[:-1] + "b"}
            lab.client("xray").put_trace_segments(TraceSegmentDocuments=[json.dumps(again)])
            lakes = lab.client("lakeformation")
            assert len(lakes.list_resources()["ResourceInfoList"]) == 1
            # A catalogue that nobody has set, so that the factory runs.
            other = lakes.get_data_lake_settings(CatalogId=f"11111111111{round_number}")
            assert other["DataLakeSettings"] == usual
            assert lab.database.query("SELECT count(*) FROM fallback_journal") == [(0,)]


def _named_factories() -> Iterator[tuple[str, Any]]:
    """Yield each function of moto's that is named as a dictionary's factory, with where it is."""
    folder = Path(str(importlib.import_module("moto").__file__)).parent
    for file in sorted(folder.glob("*/models.py")):
        name = f"moto.{file.parent.name}.models"
        tree: Any = ast.parse(file.read_text())
        for kind in [tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))]:
            for call in ast.walk(kind):
                is_dict = isinstance(call, ast.Call) and ast.unparse(call.func).endswith(
                    "defaultdict"
                )
                words = ast.unparse(call.args[0]) if is_dict and call.args else ""
                owner = getattr(kind, "name", "") if words.startswith("self.") else ""
                yield name, ".".join(filter(None, [owner, words.removeprefix("self.")]))


def test_every_factory_of_a_dictionary_that_has_a_name_can_be_stored():
    found: set[str] = set()
    for module, qualified_name in {
        (m, n) for m, n in _named_factories() if n.isidentifier() or "." in n
    }:
        what: Any = importlib.import_module(module)
        for part in qualified_name.split("."):
            what = getattr(what, part, None)
        if isinstance(what, FunctionType):
            found.add(qualified_name)
            assert pickles.load(pickles.dump({1: what}))[1]() == what()
    assert found == {"default_settings", "SegmentCollection._new_trace_item"}


def test_a_function_that_is_no_factory_is_not_stored():
    from moto.xray.models import SegmentCollection

    with pytest.raises(pickle.PicklingError, match="is no part of moto's state"):
        pickles.dump({1: SegmentCollection.summary})
