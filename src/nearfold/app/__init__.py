"""The command line: parse, call study/, print. No arithmetic."""
