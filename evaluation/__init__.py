"""What many runs say together: sweeps, scores, trade-offs, intervals. Imports the engine and the store; knows no page."""
