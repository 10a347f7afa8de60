"""Studies: their plans, tasks, results and judgements, and the sweeps of earlier releases."""
