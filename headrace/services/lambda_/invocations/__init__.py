"""Running invocations: finding the version, holding the limits, lending a warm process, passing the answer on."""
