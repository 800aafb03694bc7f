"""codes.bin: the durable, memory-mapped database of codes, its columns, and the model that made the codes."""
