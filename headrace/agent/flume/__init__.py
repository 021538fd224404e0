"""Runs Flume's agents: sources put events into channels, sinks take them out, in transactions.

`headrace.agent.flume.building` makes an agent of a properties file and runs it.
"""
