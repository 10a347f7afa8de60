"""What it takes to stand in public: settings, logs, health, metrics, backups, deployment. Knows no page and no models."""
