"""Neural networks for likelihood-free inference, with Equinox and Optax; loaded only when a method asks for them."""
