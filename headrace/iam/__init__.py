"""Who calls, and what AWS would deny: every caller's accesses, what is decided on them, and the report of it."""
