"""Clock, ids, ARNs, configuration, workers and ports: what every room uses and no AWS service owns."""
