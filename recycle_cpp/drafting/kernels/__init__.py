"""Numba loops of drafting: plain functions on arrays, no allocation, no Python objects.

Each has a slow, readable twin in the tests that it is compared with.
"""
