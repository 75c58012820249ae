"""Names in SQL: catalogs, folders of tables, and the tables and namespaces that names refer to."""
