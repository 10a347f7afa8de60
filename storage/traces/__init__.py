"""The steps of a run as one columnar value: flattened (flat), packed into bytes (packing)."""
