"""Which versions a table has, and where: manifests, refs, base paths, external manifest stores."""
