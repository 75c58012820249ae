"""Join namespaces, and group the rows of one, partition by partition."""

from lance_df.engine.partitioned_join import partitioned_join as partitioned_join
