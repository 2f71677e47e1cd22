"""Columns by kind: what a table's columns hold, and how they become numbers inside a model."""
