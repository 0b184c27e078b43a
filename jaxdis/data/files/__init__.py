"""The publishers' files: found, checked, decoded once. One module a format; none of them unpickles anything."""
