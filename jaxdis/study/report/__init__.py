"""The report of a study: one page, and the analyses of published cells behind it."""
