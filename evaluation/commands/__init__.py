"""What the commands of ``python -m evaluation`` do; each returns the exit status."""
