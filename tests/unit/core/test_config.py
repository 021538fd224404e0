"""The configuration's folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.config import cache_home, home_folder


def test_a_user_without_a_home_has_a_folder_for_caches(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert (home_folder(), cache_home()) == (tmp_path, tmp_path / ".cache")

    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nobody)
    assert (home_folder(), cache_home()) == (Path("/"), Path("/.cache"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "c"))
    assert cache_home() == tmp_path / "c"
