"""Reports of studies: measured values, tables, figures and files."""
