"""Studies: many items under many rules, paired. What is planned, how it is worked off, what each lane came to."""
