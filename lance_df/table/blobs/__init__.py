"""Columns of blobs: their files, references and moves."""
