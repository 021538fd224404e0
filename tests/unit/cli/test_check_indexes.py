"""`headrace check` of OpenSearch's indexes: damage is found, and set aside with `--repair`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from click.testing import CliRunner

from headrace.cli.commands import headrace
from headrace.core.ids import Ids
from headrace.services.opensearch.home import FILE
from headrace.services.opensearch.rest import SearchRequest, SearchRestApi
from headrace.services.opensearch.store import Store
from headrace.store.database import Database
from tests.support.clock import FakeClock


def index(data_dir: Path, count: int) -> None:
    store = Store(data_dir / FILE)
    rest = SearchRestApi(store, FakeClock(), Ids(3))
    lines = "".join(f'{{"index":{{"_index":"i"}}}}\n{{"n":{n},"t":"w{n}"}}\n' for n in range(count))
    answer: Any = rest.answer(SearchRequest("d", "POST", ["_bulk"], {}, lines.encode()))
    assert answer.body["errors"] is False
    store.close()


def check(data_dir: Path, *options: str) -> tuple[int, str]:
    done = CliRunner().invoke(headrace, ["check", "--data-dir", str(data_dir), *options])
    return done.exit_code, done.output


def test_damage_is_found_and_set_aside(tmp_path: Path):
    Database(tmp_path / "state.sqlite").close()
    index(tmp_path, 500)
    code, told = check(tmp_path)
    assert (code, told) == (0, f"{tmp_path} is sound\n")
    path = tmp_path / FILE
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(b"\xff" * (size // 4))
    code, told = check(tmp_path)
    assert code == 1
    assert FILE in told
    code, told = check(tmp_path, "--repair")
    assert code == 0, told
    assert "OpenSearch's domains begin without an index" in told
    assert (tmp_path / "quarantine" / "opensearch" / FILE).stat().st_size == size
    index(tmp_path, 1)
    assert check(tmp_path)[0] == 0
