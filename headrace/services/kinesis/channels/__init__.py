"""Channels: deliveries of an on-demand stream's records to a bucket.

Kinesis keeps the channels, their states, names of objects, checks, metrics and logs; the deliveries themselves are
carried out by the cloud's delivery engine, which it gets as `headrace.core.ports.ObjectDeliveries`.
"""
