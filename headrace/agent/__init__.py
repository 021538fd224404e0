"""Collects: reads Kinesis Agent's `agent.json` and Flume's properties files, and sends what they name to Kinesis.

`headrace.agent.running` is the package's face: it makes an agent of a configuration file and runs it.
"""
