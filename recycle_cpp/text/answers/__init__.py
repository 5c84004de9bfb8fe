"""An answer as it grows: characters from tokens, stop strings, and what is said, thought and called told apart."""
