"""The data path: putting and reading records, in JSON and CBOR, by the way that SDKs use most and in general."""
