"""Text of a request: chat templates, UTF-8 from token pieces, stop strings."""
