"""Pairwise judging by a language model behind any OpenAI-compatible endpoint, in both orders. Off
without a key."""
