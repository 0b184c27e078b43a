"""Compiling for devices that are not here."""

import jax

# Other tests ask for devices when they are imported. The plugin of a GPU then looks for a driver, and where it finds
# none, it cannot compile either.
if not jax.config.jax_platforms:
    jax.config.update("jax_platforms", "cpu")
