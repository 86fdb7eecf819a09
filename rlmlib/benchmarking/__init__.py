"""Running a model over a benchmark."""
