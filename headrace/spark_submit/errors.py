"""The error that every failed start of a job raises."""

from __future__ import annotations


class JobRefused(Exception):
    """A job cannot be started; the message is one sentence for the user. The job becomes FAILED."""
