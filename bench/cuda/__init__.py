"""``make cuda``: all measurements of a machine with a CUDA device, and nothing but torch and transformers, in one command.

The models are random, with the sizes of public ones and a coupling that makes drafts right as often as real ones are
(``bench.coupled``): times are true, texts mean nothing.
"""
