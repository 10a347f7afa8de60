"""What inference servers report on their speculative decoding, read as runs."""
