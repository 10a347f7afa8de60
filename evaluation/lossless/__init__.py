"""Whether a server with speculative decoding writes what its model alone would write (``mars
check``)."""
