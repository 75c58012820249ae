"""Pages of 2.1 and 2.2: `page` and `page_run` decode rows, `encode_page` and `encode_columns` encode them."""
