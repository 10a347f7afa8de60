"""The text that the bundled pair was trained on, made by this program."""
