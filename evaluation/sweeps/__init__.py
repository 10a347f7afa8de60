"""One rule against strict over a grid of settings, as the page's Sweep tab runs it: plan, runner, points, trade-off, CSV."""
