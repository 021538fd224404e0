"""The documents name the rooms, files and tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# A path in backquotes: with a slash, or a file of Python's.
NAMED = re.compile(r"`(\w[\w./*-]*(?:/|\.py|\.md))`")


def _anchors(page: Path) -> set[str]:
    """Return the places in a page that a link can name, as GitHub makes them of its headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.name)
def test_every_link_between_documents_leads_somewhere(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        name, _, anchor = target.partition("#")
        to = page.parent / name if name else page
        if target.startswith("http"):
            continue
        if not to.exists() or (anchor and to.suffix == ".md" and anchor not in _anchors(to)):
            broken.append(target)
    assert broken == []


def test_every_place_of_an_idea_is_there() -> None:
    named = set(NAMED.findall((ROOT / "docs" / "ideas.md").read_text()))
    assert len(named) > 25
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_every_file_and_folder_that_it_names_is_there() -> None:
    named = sorted(set(NAMED.findall(PAGE)))
    assert len(named) > 40
    services = ROOT / "headrace" / "services"
    # A file of the skeleton is named as it lies in each service.
    missing = [
        name
        for name in named
        if not list(ROOT.glob(name.rstrip("/")))
        and not list(services.glob(f"*/{name.rstrip('/')}"))
    ]
    assert missing == []


def test_it_names_every_room_of_the_package_and_every_service() -> None:
    package = ROOT / "headrace"
    rooms = [
        folder.relative_to(ROOT).as_posix() + "/"
        for parent in (package, package / "services")
        for folder in sorted(parent.iterdir())
        if (folder / "__init__.py").exists()
    ]
    assert [room for room in rooms if f"`{room}`" not in PAGE] == []


def test_the_skeleton_that_it_promises_is_every_services() -> None:
    (promised,) = re.findall(
        r"^Every owned service has (.*?)\.$", PAGE, flags=re.MULTILINE | re.DOTALL
    )
    files = re.findall(r"`([\w./]+)`", promised)
    assert len(files) >= 4
    lacking = [
        f"{service.name}/{name}"
        for service in sorted((ROOT / "headrace" / "services").iterdir())
        if (service / "api.py").exists()
        for name in files
        if not (service / name).exists()
    ]
    assert lacking == []


def test_a_room_is_an_owned_service_or_stands_on_moto() -> None:
    rooms = [
        folder
        for folder in (ROOT / "headrace" / "services").iterdir()
        if (folder / "__init__.py").exists()
    ]
    patches = (ROOT / "headrace" / "composition" / "moto_patches.py").read_text()
    assert len(rooms) > 25
    assert [
        room.name
        for room in rooms
        if not (room / "api.py").exists() and f"headrace.services.{room.name}" not in patches
    ] == []


@pytest.mark.parametrize("page", ["security.md", "reliability.md"])
def test_every_test_that_a_table_names_is_there(page: str) -> None:
    named = set(re.findall(r"`([\w/]*test_\w+\.py)`", (ROOT / "docs" / page).read_text()))
    assert len(named) > 6
    # After the first of a row only the file's name stands.
    missing = [
        name
        for name in sorted(named)
        if not (ROOT / name).exists() and ("/" in name or not list((ROOT / "tests").rglob(name)))
    ]
    assert missing == []
