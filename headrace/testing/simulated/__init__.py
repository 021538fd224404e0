"""A whole cloud on one thread and virtual time: seeded scheduling, faults and crashes; see `world`."""
