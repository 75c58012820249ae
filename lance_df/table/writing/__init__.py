"""Write rows into new fragments: matching schemas, data files, zone maps, uncommitted files."""
