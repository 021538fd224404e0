"""SNS: checks and signatures, on moto's topics."""
