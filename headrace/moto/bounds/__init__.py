"""Replaces moto's unbounded processing of clients' text."""
