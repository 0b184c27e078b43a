"""Readers of the publishers' files, which are checked and decoded once. One module per format; none unpickles."""

__all__ = ()  # what is public here, jaxdis.data names
