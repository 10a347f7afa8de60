"""``make cuda``: all measurements on a CUDA device, requiring only torch and transformers.

The models are random, with the sizes of public ones and a realistic acceptance rate
(``bench.cuda.coupled``): times are realistic, texts are meaningless.
"""
