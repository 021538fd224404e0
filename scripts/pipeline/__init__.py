"""The stages of `make run`: what each does to a cloud, how it is checked, and how the results are shown."""
