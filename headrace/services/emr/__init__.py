"""EMR on EC2: clusters without machines, whose steps run as real processes on this one."""
