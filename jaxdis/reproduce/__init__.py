"""Papers run again: every table beside the printed one, every claim with a verdict, on one page per paper."""
