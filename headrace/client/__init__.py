"""The modules of headrace that applications and their tests import; they import nothing of the cloud itself."""
