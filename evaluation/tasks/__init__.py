"""lm-eval tasks for the bundled pair. lm-eval reads the folder (``evaluation.harness.TASKS``) and imports the functions named in its
files."""
