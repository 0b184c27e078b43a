"""The report of a study: one page, and the questions that it answers from published cells."""
