"""Readers of the publishers' files, which are checked and decoded once. One module per format; none unpickles."""
