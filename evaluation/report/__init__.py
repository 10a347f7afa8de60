"""What a study says: measured values, and their tables, figures and files."""
