"""Suites of prompts in the question.jsonl format, and the two built-in suites of the bundled
pair."""
