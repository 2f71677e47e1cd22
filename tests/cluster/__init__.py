"""Tests on a Dask cluster of two workers."""
