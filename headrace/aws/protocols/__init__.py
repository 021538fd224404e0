"""Reads requests and writes answers in AWS's protocols: JSON, CBOR, query, REST."""
