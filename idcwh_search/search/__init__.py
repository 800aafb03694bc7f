"""Exact Hamming search: the interface that index and database share, the in-memory index, and the `where` filter."""
