"""A study's report: one page, and the analyses behind it.

`jaxdis study report` writes it. The modules are internal: their functions take what the report passes to each other,
unchecked.
"""

__all__ = ()
