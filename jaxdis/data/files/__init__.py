"""Readers of the publishers' files, which are checked and decoded once; none unpickles."""

__all__ = ()  # what is public here, jaxdis.data names
