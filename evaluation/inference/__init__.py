"""Paired statistics: bootstrap intervals, tests of proportions, verdicts on a stated margin. Values in, values out."""
