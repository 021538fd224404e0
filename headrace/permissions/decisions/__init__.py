"""IAM's decisions on callers' requests: notes every caller's accesses, decides on them, and reports the denied ones."""
