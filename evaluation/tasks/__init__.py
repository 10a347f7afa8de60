"""lm-eval tasks for the bundled pair. lm-eval reads the folder (``evaluation.harness.TASKS``) and
imports what its files name."""
