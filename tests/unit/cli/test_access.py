"""The options of `headrace up` that say who may use the cloud."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from headrace.cli.commands import headrace
from headrace.cli.run import config_options
from headrace.core.config import Config, LayerFolder


def taken(*arguments: str, **environment: str) -> dict[str, Any]:
    """Return what the options give to a command."""
    found: dict[str, Any] = {}

    @click.command()
    @config_options
    def command(**values: Any) -> None:
        found.update(values)

    done = CliRunner().invoke(command, list(arguments), env=environment)
    assert done.exit_code == 0, done.output
    return found


def test_origins_and_hosts_are_listed_by_flags_or_by_the_environment():
    flags = taken("--allow-origin", "http://a", "--allow-origin", "http://b", "--allow-host", "c")
    assert flags["allow_origins"] == ("http://a", "http://b")
    assert flags["allow_hosts"] == ("c",)
    variables = taken(HEADRACE_ALLOW_ORIGIN="http://a, http://b", HEADRACE_ALLOW_HOST="c d")
    assert variables["allow_origins"] == ("http://a", "http://b")
    assert variables["allow_hosts"] == ("c", "d")


def test_layers_are_folders_by_arn(tmp_path: Path):
    arn = "arn:aws:lambda:us-east-1:123456789012:layer:Extras"
    expected = (LayerFolder(arn, tmp_path), LayerFolder(f"{arn}:7", tmp_path))
    texts = [f"{arn}={tmp_path}", f"{arn}:7={tmp_path}"]
    assert taken("--layer", texts[0], "--layer", texts[1])["layers"] == expected
    assert taken(HEADRACE_LAYERS=" ".join(texts))["layers"] == expected


def test_every_setting_of_a_cloud_has_an_option_with_its_default():
    defaults = Config(data_dir=Path("d"))
    assert Config(data_dir=Path("d"), **taken()) == defaults
    assert {"data_dir", *taken()} == {field.name for field in dataclasses.fields(Config)}
    assert taken("--state-delay", "1.5")["state_delay_ms"] == 1500


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--allow-origin", "localhost:3000"], "--allow-origin takes an origin such as"),
        (["--allow-origin", "null"], "--allow-origin does not take null"),
        (["--allow-host", "http://x"], "--allow-host takes a host's name without a port"),
        (
            ["--host", "0.0.0.0"],
            "On 0.0.0.0 everybody who reaches this machine could run code as you: start with --auth",
        ),
        (
            ["--layer", "extras=/tmp"],
            "--layer takes ARN=FOLDER, with the ARN of a Lambda layer, not",
        ),
        (["--layer", "arn:aws:lambda:us-east-1:1:layer:a=/no/such"], "--layer: there is no folder"),
        (["--host", "::"], "On :: everybody who reaches this machine"),
        (["--host", "198.51.100.7"], "On 198.51.100.7 everybody who reaches"),
        (["--host", "no.such.host.invalid"], "Cannot listen on no.such.host.invalid: "),
        (
            ["--auth-keys", "/nowhere/keys"],
            "The keys of /nowhere/keys cannot be read: No such file",
        ),
    ],
)
def test_what_is_neither_ends_with_a_sentence(arguments: list[str], sentence: str):
    done = CliRunner().invoke(headrace, ["up", *arguments])
    assert done.exit_code == 1
    assert done.output.startswith(f"Error: {sentence}")
    assert len(done.output.splitlines()) == 1
