"""Model files, tables in and out."""
