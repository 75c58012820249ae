"""Keep a table in shape: compaction, zone map indices, removal of what is no longer needed."""
