"""Image files: listing, reading from tar files, decoding and preprocessing."""
