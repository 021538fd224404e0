"""One stack a stage of the pipeline."""
