"""The suites: each module has a `TITLE`, and `run(settings)`, which yields measures and checks answers."""
