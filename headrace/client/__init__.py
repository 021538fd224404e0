"""For applications and their tests; knows nothing of how the cloud is made."""
