"""Small learners, batched over tasks by construction: trees, linear models, neighbors, probes. Private."""
