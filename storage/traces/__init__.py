"""The steps of a run as one columnar value: flattened (flat), packed (packing), sealed as bytes (sealing)."""
