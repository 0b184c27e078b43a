"""Many members × many metrics: inputs, execution, results, and their uncertainty."""
