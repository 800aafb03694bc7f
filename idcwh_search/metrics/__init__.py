"""Retrieval metrics: MAP in its definitions, precision and recall, statistics of codes, tables and plots."""
