"""Serving the page in public: settings, logs, health, metrics, backups, deployment."""
