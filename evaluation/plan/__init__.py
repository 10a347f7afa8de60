"""Plans of studies: their lanes, models, and how they are stored."""
