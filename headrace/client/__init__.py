"""What applications and their tests import of headrace; it imports nothing of the cloud itself."""
