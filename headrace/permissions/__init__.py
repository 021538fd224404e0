"""IAM's policy language: what a policy may say, what a request needs, and whether AWS would let it through."""
