"""What training minimizes: one table of objectives, their losses, and the distributions behind them."""
