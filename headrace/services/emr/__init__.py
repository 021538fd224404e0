"""EMR on EC2: clusters without EC2 instances, whose steps run as processes on this machine."""
