"""Training a zoo: steps, micro-batches, members over devices, checkpoints."""
