"""Puts a cloud's health page into sentences, for `headrace up` and `headrace status`."""

from __future__ import annotations

from typing import Any

import click


def moto_progress(status: dict[str, Any]) -> str:
    """Return a phrase about how much is loaded."""
    loading = status["moto_loading"]
    return f"{loading['done']:,} of {loading['all']:,}"


def devices_sentence(ports: dict[str, int] | None) -> str:
    """Return where devices connect by MQTT, as the end of a line; empty when they cannot."""
    if not ports:
        return ""
    named = ("plain", "in plain text"), ("tls", "with TLS")
    return ", MQTT on " + " and ".join(
        f"port {ports[key]} {words}" for key, words in named if key in ports
    )


def print_losses(page: dict[str, Any]) -> None:
    """Print which records the cloud found missing when it started."""
    for sentence in page.get("losses", ()):
        click.echo(f"Warning: {sentence}; see: headrace check --repair", err=True)


def moto_phrase(page: dict[str, Any]) -> str:
    """Return a phrase about the state of moto's services on a health page."""
    if page["moto"] == "loading":
        return f"loading, {moto_progress(page)}"
    return ": ".join(filter(None, (page["moto"], page.get("moto_failure"))))
