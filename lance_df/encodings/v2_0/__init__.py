"""Combine decoders into 2.0 pages (`build`), and encode 2.0 pages."""
