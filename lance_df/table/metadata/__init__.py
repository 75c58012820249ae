"""Find the versions of a table and their files: manifests, refs, base paths, external manifest stores."""
