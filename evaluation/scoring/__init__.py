"""Scoring of answers: the metrics of lm-eval, sacrebleu and rouge-score; code in a subprocess."""
