"""Puts the subcommands of `headrace` together; every error ends with one sentence and a non-zero exit code."""

from __future__ import annotations

import importlib
from typing import Any

import click

from headrace import __version__
from headrace.cli.interrupts import BROKEN_PIPE, INTERRUPTED, interruptible, silence_output

# Each command with the module that defines it under its own name, and the first sentence of its help. A module is
# imported when its command runs: `headrace status` does not wait for what `headrace tail` needs.
_COMMANDS = {
    "up": ("headrace.cli.run", "Start the local cloud."),
    "down": ("headrace.cli.down_status", "Stop the cloud that runs on the data directory."),
    "status": (
        "headrace.cli.down_status",
        "Show the cloud that runs on the data directory, or at a URL.",
    ),
    "env": (
        "headrace.cli.down_status",
        "Print the exports for the cloud of the data directory.",
    ),
    "dashboard": (
        "headrace.cli.dashboard",
        "Print the address of the pipeline's live page.",
    ),
    "lag": (
        "headrace.cli.down_status",
        "Show what reads and writes, how fast and how late.",
    ),
    "top": (
        "headrace.cli.down_status",
        "Show live what moves: rates, heat, lag.",
    ),
    "put": (
        "headrace.cli.put",
        "Put DATA, or each line of standard input, into STREAM.",
    ),
    "tail": (
        "headrace.cli.tail",
        "Print the records of STREAM as they come.",
    ),
    "replay": (
        "headrace.cli.replay",
        "Replay SOURCE into a stream.",
    ),
    "redrive": (
        "headrace.cli.redrive",
        "Show the failed records in SOURCE, and send them on with --to.",
    ),
    "check": (
        "headrace.cli.check",
        "Verify the data of a stopped cloud.",
    ),
    "reset": (
        "headrace.cli.check",
        "Remove all data of a stopped cloud, after a question.",
    ),
    "faults": (
        "headrace.cli.faults",
        "Inject faults into clients' requests.",
    ),
    "trace": (
        "headrace.cli.trace",
        "Show what was done with a stream's records.",
    ),
    "iam": ("headrace.cli.iam", "Find requests that AWS would deny, before you deploy."),
    "submit": (
        "headrace.cli.submit",
        "Run JOB, a PySpark program, as a step of EMR.",
    ),
    "history": (
        "headrace.cli.history",
        "Show the jobs of a data directory in Spark's history server.",
    ),
    "spark": (
        "headrace.cli.spark",
        "Install, list and remove the Sparks of EMR's release labels.",
    ),
    "sql": (
        "headrace.cli.sql",
        "Streaming SQL over Kinesis streams, run by Spark.",
    ),
    "agent": (
        "headrace.cli.agent",
        "Send new lines of files, as Kinesis Agent and Flume do.",
    ),
    "cdc": (
        "headrace.cli.cdc",
        "Capture a PostgreSQL's rows, then its changes.",
    ),
    "compact": (
        "headrace.cli.cdc",
        "Fold STREAM's new events into the snapshot in S3, and end.",
    ),
    "plan": (
        "headrace.cli.plan",
        "Plan for the records of a capture, FILE, or of a live STREAM.",
    ),
    "shards": (
        "headrace.cli.shards",
        "Show, split and merge a stream's shards; simulate the policy.",
    ),
    "lint": (
        "headrace.cli.lint",
        "Find before you deploy what loses records or is refused.",
    ),
}

# Raised for a group without a subcommand, to show its help; click before 8.2 shows it without raising.
_HELP_WANTED: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, sorted."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module and return the command; None for an unknown name."""
        if cmd_name not in _COMMANDS:
            return None
        module, _ = _COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with their first sentences, without an import of their modules."""
        width = formatter.width - 6 - max(map(len, _COMMANDS))
        rows = [
            (name, click.Command(name, help=sentence).get_short_help_str(width))
            for name, (_, sentence) in sorted(_COMMANDS.items())
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; a usage error is one sentence."""
        try:
            return super().parse_args(ctx, args)
        except _HELP_WANTED:
            raise
        except click.UsageError as error:
            raise _convert_usage_error(error) from error

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; every exception ends it with a sentence or an exit code, never with a traceback."""
        try:
            with interruptible():
                return super().invoke(ctx)
        except _HELP_WANTED:
            raise
        except click.UsageError as error:
            raise _convert_usage_error(error) from error
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            silence_output()
            ctx.exit(BROKEN_PIPE)
        except OSError as error:
            # On a full disk, Python's last write at exit would end in a traceback.
            silence_output()
            from headrace.cli.options import fail, sentence

            raise fail(sentence(error)) from error


class _UsageError(click.ClickException):
    """A usage error in one sentence, without click's usage text."""

    exit_code = click.UsageError.exit_code


def _convert_usage_error(error: click.UsageError) -> _UsageError:
    command = error.ctx.command_path if error.ctx is not None else "headrace"
    message = " ".join(error.format_message().split()).removesuffix(".")
    return _UsageError(f"{message}; see: {command} --help")


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="headrace")
def headrace() -> None:
    """AWS streaming, whole, on a laptop."""
