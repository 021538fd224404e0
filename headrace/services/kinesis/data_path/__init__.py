"""The data path: puts and reads records. `wire` answers the requests that SDKs send most."""
