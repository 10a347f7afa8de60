"""What is asked: suites in the question.jsonl format, and the two that come with the bundled pair."""
