"""Training a zoo: updates, members over devices, checkpoints."""
