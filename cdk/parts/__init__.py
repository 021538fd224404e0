"""Validated building blocks. An argument that AWS would refuse raises ValueError at synthesis, in one sentence."""
