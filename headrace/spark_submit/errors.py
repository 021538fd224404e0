"""The error of a job that cannot start."""

from __future__ import annotations


class JobRefused(Exception):
    """A job cannot start; the message is one sentence for the user. The job becomes FAILED."""
