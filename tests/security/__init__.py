"""Every attack that was tried on the cloud, and what holds it off."""
