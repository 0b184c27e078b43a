"""Tables of users: columns of files and of data frames, and the factors that they hold."""
