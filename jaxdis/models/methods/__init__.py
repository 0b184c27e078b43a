"""What can be trained: one hashable value per method, with pure functions of one member."""
