"""idcwh-reproduce: the paper's tables and figures, from trained models to a report.

tables   what each table asks for                paper    the numbers that the paper printed
plan     the cells of a table, sweep, ablation   cells    a trained and measured cell, as a file
running  trains what is missing                  schema   what such a file has to have
machine  where and with what it ran
results  cells gathered into means               report   the text and tables of the report
document report.md and report.html               figures  the pictures
"""
