"""Registers the executor `process` with LocalStack, and runtimes that are newer than LocalStack."""

# LocalStack is installed in a separate environment.
# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

from localstack.services.lambda_.invocation.plugins import RuntimeExecutorPlugin

# Runtimes of the CDK's own functions and of newer templates, which LocalStack 4.9.2 would refuse.
NEWER_RUNTIMES = ("nodejs24.x", "python3.14")


class ProcessExecutorPlugin(RuntimeExecutorPlugin):
    """The executor that runs a function as a process on this machine."""

    name = "process"

    def load(self, *_: Any, **__: Any) -> Any:
        """Return the executor's class."""
        from localstack.services.lambda_.runtimes import ALL_RUNTIMES

        from headrace_localstack.process_executor import ProcessExecutor

        ALL_RUNTIMES.extend(name for name in NEWER_RUNTIMES if name not in ALL_RUNTIMES)
        return ProcessExecutor
