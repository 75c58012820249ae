"""One Lance table: versions, fragments, deletions, row ids, refs, indices, and the scan."""
