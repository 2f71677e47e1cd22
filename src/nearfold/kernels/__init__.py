"""Compiled loops (Numba): arrays in, arrays out, no policy.

Import a module from here only at the moment its kernel is needed: it imports Numba. Every
kernel is serial and releases the GIL, so that threads are `run.map_in_order`'s business.
"""
