"""Every command of `headrace`. One clear sentence and a non-zero exit on bad input, on Ctrl-C and on a closed pipe."""

from __future__ import annotations

from typing import Any

import click

from headrace import __version__
from headrace.cli.check import check
from headrace.cli.faults import faults
from headrace.cli.history import history
from headrace.cli.interrupts import BROKEN_PIPE, INTERRUPTED, interruptible, silence_output
from headrace.cli.options import fail, sentence
from headrace.cli.put import put
from headrace.cli.replay import replay
from headrace.cli.run import down, status, up
from headrace.cli.submit import submit
from headrace.cli.tail import tail
from headrace.cli.trace import trace


class _Commands(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; whatever is not its own error ends it with a sentence or a code, never a traceback."""
        try:
            with interruptible():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            silence_output()
            ctx.exit(BROKEN_PIPE)
        except OSError as error:
            # On a full disk maybe, where Python's own last try to write would end in a traceback.
            silence_output()
            raise fail(sentence(error)) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="headrace")
def headrace() -> None:
    """AWS streaming, whole, on a laptop."""


for command in (up, down, status, put, tail, replay, check, faults, trace, submit, history):
    headrace.add_command(command)
