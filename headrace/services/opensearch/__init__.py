"""OpenSearch: domains, and a small OpenSearch for users who run no real one: indexes in SQLite, behind its REST API."""
