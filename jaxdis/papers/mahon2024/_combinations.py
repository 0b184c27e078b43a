"""Which combinations of factors are held out on each data set."""

_ARM_PAIRS = ((0, 0), (1, 4), (0, 5), (1, 3), (1, 1), (0, 2))
# Combinations of Mahon et al. 2024, Tables 27 to 47, "NC size-shape": factors, then the pairs that are held out.
HELD_OUT = {
    "dsprites": (("scale", "shape"), ((0, 0), (5, 2), (2, 1), (3, 1), (3, 2))),
    "shapes3d": (("scale", "shape"), ((0, 0), (5, 2), (2, 1), (3, 1), (3, 2), (7, 3), (0, 3), (7, 1))),
    "mpi3d": (("object_size", "object_shape"), _ARM_PAIRS),
    "standin_arm": (("object_size", "object_shape"), _ARM_PAIRS),
}
