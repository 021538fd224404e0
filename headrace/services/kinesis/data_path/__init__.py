"""The data path: puts and reads records. `json_wire` and `cbor_wire` answer the requests that SDKs send most."""
