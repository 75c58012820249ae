"""Many tables as one: directory namespaces, partition specs, and what they say about predicates."""
