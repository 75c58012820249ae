"""One `.lance` file: container, pages, statistics; readers and writers. Bytes stop here."""
