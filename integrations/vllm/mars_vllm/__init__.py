"""MARS for vLLM: margin-aware verification of drafted tokens, switched on per request."""

__version__ = "0.1.0"


def register() -> None:
    """Entry point of ``vllm.general_plugins``; vLLM calls it in the API server, the engine and the
    workers.

    Raises RuntimeError, which stops vLLM, where what it wraps there has other parameters.
    """
    from mars_vllm.install import install

    install()
