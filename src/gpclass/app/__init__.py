"""The command line, what it reads and writes, and the comparison that it prints."""
