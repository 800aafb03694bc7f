"""The commands that need no torch: idcwh-index, idcwh-search, idcwh-dedup, idcwh-eval."""
