"""How the values of a report are measured from stored results."""
