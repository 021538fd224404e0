"""The data path: putting and reading records. `json_wire` and `cbor_wire` answer the requests that SDKs send most."""
