"""Shards that follow the load: which to split and where, which to merge, and when something else is better.

The policy (`policy`) is pure: loads in, actions and advice out. `scaling` measures a stream, asks the policy and acts;
`lambdas/autoscale`, the command `headrace shards` and the simulation use these same modules. Standard library alone,
but for `simulation`; the cloud is reached through a client of boto3 that the caller passes.
"""

from headrace.shards.loads import KeySketch as KeySketch
from headrace.shards.loads import Settings as Settings
from headrace.shards.loads import StreamLoad as StreamLoad
from headrace.shards.policy import Decision as Decision
from headrace.shards.policy import Policy as Policy
