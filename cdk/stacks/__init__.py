"""The stacks: one for each stage of the pipeline."""
