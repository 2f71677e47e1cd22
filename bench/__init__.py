"""Benchmarks: each job against its peers, in one run. `make bench`."""
