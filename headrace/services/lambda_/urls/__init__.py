"""Function URLs: HTTP requests straight to a function, and their cross-origin rules."""
