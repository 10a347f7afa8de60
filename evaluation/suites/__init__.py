"""Suites of prompts in the question.jsonl format, and the two that come with the bundled pair."""
