"""codes.bin, the durable memory-mapped database of codes: its items, its columns, and its model and images."""
