"""Users' tables: columns in files and data frames, and the factors that they hold."""
