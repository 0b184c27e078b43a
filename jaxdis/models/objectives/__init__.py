"""What training minimizes: one table with objectives, their losses, and the distributions behind them."""

__all__ = ()  # what is public here, jaxdis.models names
