"""The command line: parse, call the runtime, show."""
