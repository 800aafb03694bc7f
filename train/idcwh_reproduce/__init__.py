"""idcwh-reproduce: the paper's tables and figures, from trained models to a report.

tables   the content of each table               paper    the numbers that the paper printed
plan     the cells of a table, sweep, ablation   cells    a trained and measured cell, as a file
running  training of the cells that are missing  machine  the machine and versions of a cell
results  cells gathered into means               report   the text and tables of the report
markup   Markdown, and HTML made from it         figures  the images
"""
