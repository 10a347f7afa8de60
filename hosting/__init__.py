"""What it takes to serve the page in public: settings, logs, health, metrics, backups, deployment."""
