"""Which setting may be used, and rules at equal τ: studies whose lanes are chosen from strict's runs
on other prompts."""
