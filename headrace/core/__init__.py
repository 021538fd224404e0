"""Clock, ids, ARNs, configuration, workers and ports: code that every package uses and no AWS service owns."""
