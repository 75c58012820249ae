"""Names in SQL: catalogs, folders of tables, and the tables and namespaces that they lead to."""
