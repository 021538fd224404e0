"""A small OpenSearch: indexes in a SQLite file, asked by OpenSearch's REST, for who has no real one."""
