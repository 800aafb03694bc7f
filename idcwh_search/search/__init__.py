"""Exact Hamming search from Python: what an index and a database share, the in-memory index, and `where`."""
