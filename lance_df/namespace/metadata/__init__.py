"""What a namespace tells of itself: properties, and tables of its partitions, specs, files and history."""
