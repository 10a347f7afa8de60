"""``python -m evaluation.harness …`` is ``lm_eval …`` with the model ``mars``; so is ``accelerate launch -m evaluation.harness …``."""

import sys

from evaluation.harness.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
