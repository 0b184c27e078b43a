"""The certificate of a metric: its scores of representations with known properties."""
