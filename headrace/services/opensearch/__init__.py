"""OpenSearch: domains, and a small OpenSearch that answers for them."""
