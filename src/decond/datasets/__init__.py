"""Real data that come with decond, small and with their attribution."""

from decond.datasets.wind import Wind, WindDay, load_wind, wind_day

__all__ = ["Wind", "WindDay", "load_wind", "wind_day"]
