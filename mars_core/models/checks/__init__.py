"""What is checked of models before they are used: untrusted files, the engine's passes beside the
model's own, and the shapes in which these are exact."""
