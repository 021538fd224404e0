"""`headrace` imports a command's module when the command runs, and knows every command before."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from headrace.cli.commands import headrace

_CONTEXT = click.Context(headrace, info_name="headrace", terminal_width=80)


@pytest.mark.parametrize("name", headrace.list_commands(_CONTEXT))
def test_the_list_says_what_the_help_of_a_command_begins_with(name: str) -> None:
    command = headrace.get_command(_CONTEXT, name)
    assert command is not None
    assert command.name == name
    row = next(
        line for line in headrace.get_help(_CONTEXT).splitlines() if line.split()[:1] == [name]
    )
    assert " ".join(row.split()[1:]) == command.get_short_help_str(200)


@pytest.mark.parametrize("name", ["", *headrace.list_commands(_CONTEXT)])
def test_a_list_of_commands_has_whole_sentences_at_80_columns(name: str) -> None:
    command = headrace.get_command(_CONTEXT, name) if name else headrace
    assert command is not None
    context = click.Context(command, info_name=name, terminal_width=80)
    formatter = context.make_formatter()
    command.format_options(context, formatter)
    commands = formatter.getvalue().partition("Commands:")[2]
    assert bool(commands) == isinstance(command, click.Group)
    assert "..." not in commands


def test_help_imports_no_command() -> None:
    program = (
        "import sys\n"
        "from headrace.cli.commands import headrace\n"
        "headrace(['--help'], standalone_mode=False)\n"
        "print(*sorted(name for name in sys.modules if name.startswith(('boto', 'headrace.c'))), file=sys.stderr)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "tail" in ran.stdout
    assert ran.stderr.split() == [
        "headrace.cli",
        "headrace.cli.commands",
        "headrace.cli.interrupts",
    ]


def test_an_unknown_command_is_one_sentence() -> None:
    with pytest.raises(click.ClickException, match="No such command 'tall'"):
        headrace(["tall"], standalone_mode=False)


def test_a_cloud_starts_without_what_few_clients_ask_for():
    """Until Kinesis answers: no resource types, no HTTP/2, no search, no moto, and no garbage collection."""
    script = (
        "import gc, sys; from headrace.store.memory import import_to_stay; runs = []\n"
        "gc.callbacks.append(lambda *run: runs.append(run)); import_to_stay('headrace.cloud')\n"
        "late = ('headrace.services.cloudformation.resources.types.s3', 'h2', 'wsproto', 'moto',\n"
        "'headrace.services.opensearch.rest', 'cramjam', 'regex', 'jsonpatch', 're2', 'yaml')\n"
        "print(gc.isenabled(), len(runs), [name for name in late if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split(maxsplit=2) == ["True", "0", "[]\n"]
