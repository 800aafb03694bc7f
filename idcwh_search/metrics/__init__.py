"""Retrieval metrics: MAP by several definitions, precision, recall, code statistics, tables and plots."""
