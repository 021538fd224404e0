"""The one error of starting a job."""

from __future__ import annotations


class JobRefused(Exception):
    """A job cannot be started; the message is one sentence for the user. The job becomes FAILED."""
