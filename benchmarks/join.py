"""All pairs within a radius, beside faiss and a plain loop: same codes and threads, results compared first.

    python benchmarks/join.py                 # the table of docs/performance
    python benchmarks/join.py --n 1000000 --bits 256 --radius 31 --peers
"""
