"""Studies of many prompts: suites, scores, intervals, reports, lm-eval."""
