"""The errors of evaluations."""

from __future__ import annotations


class TooMuch(Exception):
    """The evaluation exceeds a bound; the message is which one, in one sentence."""


class Stopped(TooMuch):
    """The cloud stops, and the evaluation with it."""
