"""One synthesis for all tests: it takes seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import late_jsii

late_jsii.install()  # before the import of aws_cdk

from aws_cdk.assertions import Template  # noqa: E402

from cdk.app import build, new_app  # noqa: E402


@pytest.fixture(scope="session")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cloud assembly of the whole app."""
    outdir = tmp_path_factory.mktemp("cdk.out")
    app = new_app(str(outdir))
    build(app)
    app.synth()
    return outdir


@pytest.fixture(scope="session")
def templates(assembly: Path) -> dict[str, Template]:
    """The template of each stage: ingest, processing, delivery, analytics."""
    return {
        path.name.removesuffix(".template.json").removeprefix("headrace-"): Template.from_string(
            path.read_text()
        )
        for path in assembly.glob("*.template.json")
    }
