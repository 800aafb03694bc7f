"""Image files: how they are listed, read from tar archives, and decoded into pixels."""
