"""Parts of a result with controls of their own."""
