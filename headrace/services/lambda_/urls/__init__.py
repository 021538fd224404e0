"""Function URLs: HTTP requests to functions, and the CORS rules for them."""
