"""Tests of `headrace.testing`."""
