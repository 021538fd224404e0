"""One call of an operation: its request, its model, its errors."""
