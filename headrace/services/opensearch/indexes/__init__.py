"""A small OpenSearch for users who run no real one: indexes in a SQLite file, behind OpenSearch's REST interface."""
