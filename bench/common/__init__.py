"""Shared parts of the benchmarks: command lines, reports, interleaved timing, ways of decoding, a
served page and its browser."""
