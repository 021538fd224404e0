"""Flume's sinks: each takes from one channel, and commits what was delivered."""
