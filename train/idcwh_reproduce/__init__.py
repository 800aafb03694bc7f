"""Reproduction of the paper's tables and figures, from trained models to a report."""
