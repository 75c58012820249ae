"""The methods of a partitioned namespace."""
