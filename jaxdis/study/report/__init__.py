"""The report of a study: one page, and the analyses of published cells behind it.

`jaxdis study report` writes it. The modules are internal: their functions take what the report passes to each other,
unchecked.
"""

__all__ = ()
