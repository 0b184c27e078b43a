"""Many members × many metrics: inputs, execution, results, and how sure they are."""
