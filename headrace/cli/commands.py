"""Puts the subcommands of `headrace` together; every error ends with one sentence and a non-zero exit code."""

from __future__ import annotations

from typing import Any

import click

from headrace import __version__
from headrace.cli.agent import agent
from headrace.cli.check import check
from headrace.cli.down_status import down, status
from headrace.cli.faults import faults
from headrace.cli.history import history
from headrace.cli.iam import iam
from headrace.cli.interrupts import BROKEN_PIPE, INTERRUPTED, interruptible, silence_output
from headrace.cli.lint import lint
from headrace.cli.options import fail, sentence
from headrace.cli.put import put
from headrace.cli.redrive import redrive
from headrace.cli.replay import replay
from headrace.cli.run import up
from headrace.cli.shards import shards
from headrace.cli.spark import spark
from headrace.cli.sql import sql
from headrace.cli.submit import submit
from headrace.cli.tail import tail
from headrace.cli.trace import trace

# Raised for a group without a subcommand, to show its help; click before 8.2 shows it without raising.
_HELP_WANTED: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())


class _Commands(click.Group):
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


for command in (
    agent,
    up,
    down,
    status,
    put,
    tail,
    replay,
    redrive,
    check,
    faults,
    trace,
    iam,
    submit,
    history,
    spark,
    sql,
    shards,
    lint,
):
    headrace.add_command(command)
