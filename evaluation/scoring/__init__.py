"""How an answer is scored: the metrics of lm-eval, sacrebleu and rouge-score; code in a subprocess."""
