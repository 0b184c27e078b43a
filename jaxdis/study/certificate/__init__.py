"""The certificate of a metric: what it says of representations whose qualities are known."""
