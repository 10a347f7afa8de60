"""Studies: their plans, tasks, results and judgements."""
