"""Studies: many items under many rules, paired. Plans, workers and results."""
