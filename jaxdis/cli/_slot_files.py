"""Slots in files: what ``jaxdis encode`` writes for a zoo with slots, and how ``jaxdis score`` reads it."""

from collections.abc import Sequence

import numpy as np

from jaxdis._core.options import shown

# Between the labels of a factor, which is named after its place in each level: cube.color.
_BETWEEN = "."


def arrays_of(codes: np.ndarray, segments: np.ndarray, scenes, groups: int) -> dict[str, np.ndarray]:
    """The arrays in a file with slots: ``codes [m, n, s, d]``, and ``segments [m, n, h, w]``, each pixel's slot, of
    scenes that were drawn in so many equally long groups."""
    names = [_BETWEEN.join(pair) for pair in scenes.labels]
    return {
        "codes": codes,
        "segments": segments,
        "factors": np.asarray(scenes.factors.values),
        "names": np.array(names),
        "sizes": np.array([size or 0 for size in scenes.factors.sizes]),
        "levels": np.array(["object", "property"]),
        "groups": np.array(groups),
        "background": np.array(scenes.background or ""),
        "categorical": np.array([names[j] for j in scenes.categorical], dtype=np.str_),
    }


def score_slots(arrays, levels: Sequence[str], groups: int | None, key, progress, batch_size: int | None):
    """Score a file's slots at each level: :func:`jaxdis.evaluate_structured`, its columns under ``slots``.

    Args:
      arrays: :class:`~jaxdis.evaluation._arrays_file.Arrays`, codes ``[n, s, d]`` or ``[m, n, s, d]``.
      levels, groups: the shell's (``--slot-groups``); the file's if empty and None.
    """
    from jaxdis.encoders._slot_metrics import named
    from jaxdis.evaluation._scores import Scores
    from jaxdis.structured import Structure, evaluate_structured

    codes, factors, layout = np.asarray(arrays.codes), arrays.factors, arrays.slots
    levels = tuple(levels or map(str, layout.get("levels", ())))
    groups = int(layout.get("groups", 1)) if groups is None else groups
    if len(levels) != 2 or codes.ndim not in (3, 4):
        raise ValueError(
            f"--levels: must be the two levels of slots [samples, slots, codes], such as object property, got "
            f"{' '.join(levels) or 'none'} for codes of shape {codes.shape}"
        )
    labels = [tuple(name.split(_BETWEEN)) for name in factors.names]
    if odd := [name for name, parts in zip(factors.names, labels, strict=True) if len(parts) != 2]:
        raise ValueError(f"--levels: must go with factors named {'.'.join(levels)}, got {shown(odd[0])}; rename it")
    places = [(f"slot {s + 1}", f"dim {i + 1}") for s in range(codes.shape[-2]) for i in range(codes.shape[-1])]
    scores = evaluate_structured(
        codes,
        factors,
        Structure.of(levels, places, labels),
        key=key,
        groups=groups,
        background=str(layout.get("background", "")) or None,
        categorical=tuple(map(str, layout.get("categorical", ()))),
        batch_size=batch_size,
        progress=progress,
    )
    kept = {name: part for name, part in scores.parts.items() if not name.startswith("probing.")}
    return named("structured_slots", Scores(scores.columns, kept, scores.factor_names))
