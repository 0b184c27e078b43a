"""Hearts: frames of dSprites at half the resolution."""

import jax.numpy as jnp
import numpy as np

import jaxdis


def test_an_image_is_the_frame_of_dsprites_averaged_over_four_pixels():
    space, render = jaxdis.data.hearts()
    whole, frames = jaxdis.data.dsprites()
    rows = np.array([[0, 0, 0], [5, 31, 15], [3, 10, 7]], np.int32)
    scale, x, y = rows.T
    same = np.stack([0 * x + 2, scale, 0 * x, x, y + 8], axis=1).astype(np.int32)
    expected = np.asarray(frames(jnp.asarray(same))).reshape(3, 32, 2, 32, 2, 1).mean(axis=(2, 4))
    np.testing.assert_array_equal(np.asarray(render(jnp.asarray(rows))), expected)
    assert space.num_cells == 6 * 32 * 16
    for name, row in zip(space.names, rows.T, strict=True):
        values = np.array(space.values[space.position(name)])[row]
        of_dsprites = np.array(whole.values[whole.position(name)])[same[:, whole.position(name)]]
        np.testing.assert_array_equal(values, of_dsprites)
