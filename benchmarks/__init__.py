"""Speed, measured as ratios within one run: us, the alternatives, and the machine's own limit."""
