"""A trained zoo: all members' parameters, how they were trained, and what can be done with them.

Members are spread over devices, and images are encoded and decoded in equal chunks.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num

from jaxdis._core import executor, files
from jaxdis._core.arrays import as_numpy, check_one_array, check_real
from jaxdis._core.display import Progress, html_table, reported
from jaxdis._core.executor import Layout
from jaxdis._core.files import DamagedFile, named_leaves, read_arrays, with_leaves, write_arrays
from jaxdis._core.options import Count, Range, checked_devices, checked_value, shown, some_of
from jaxdis._core.platforms import Program, on_cpu
from jaxdis._core.precision import single_precision
from jaxdis._core.resources import live_bytes
from jaxdis.codes import Posterior
from jaxdis.models._config import Config, UnknownType, describe, restored
from jaxdis.models._images import Images, check_image_shape, checked_images, noise_key, unit_images
from jaxdis.models._members import in_brief
from jaxdis.models.methods._method import Method, Slots
from jaxdis.models.methods._vae import Vae
from jaxdis.models.methods.slots._base import Parts, SlotMethod

# Images at a time at most: one program then serves any number of images.
_CHUNK = 256
# Fewer where their intermediate results would take more bytes than this under one member: scenes of 128 × 128 in slots
# take 100 MB an image.
_BYTES = 1 << 30
# Members that encode them together on an accelerator.
_TOGETHER = 8


@single_precision
def encode(
    method: Method,
    params,
    images,
    *,
    render=None,
    key=None,
    batch_size: int | None = None,
    devices: Sequence[jax.Device] | None = None,
    summary: Callable | None = None,
    what: str = "represent",
    progress: Progress = False,
) -> Any:
    """How every member represents images, or what the summary makes of it; see :meth:`jaxdis.models.Zoo.encode`.

    With a ``render``, images are never held in memory together, and an image's noise depends on the key and on the
    image's place alone. ``batch_size`` is rounded up so that devices share images evenly; None: 256, or fewer where
    these would take more than about 1 GB under one member. ``what`` names the function of the method that is applied.
    """
    drawn = render is not None
    rows = _checked_factors(images, render) if drawn else checked_images(images, "images", method.image_shape)
    layout = _layout(params, devices)
    placed = layout.place(params)
    key = noise_key(jax.random.key(0) if key is None else key)
    renderer = Images.of(render) if drawn else None
    if drawn:
        check_image_shape(jax.eval_shape(renderer, rows[:1], key).shape, "render", method.image_shape)
    renderer, key = layout.share((renderer, key))
    program = functools.partial(_encode, method, what, summary, layout, placed, renderer, key)
    at_once = checked_value("batch_size", Count | None, batch_size)
    at_once = at_once or images_at_once(getattr(method, what), params, method.image_shape)
    return _in_chunks(program, rows, at_once, _num_members(params), layout, progress)


def images_at_once(function: Callable, params, shape: tuple[int, ...]) -> int:
    """How many images in this shape, or their codes, a function takes at a time beside a member."""
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), params)
    bytes_of_one = live_bytes(function, one, jax.ShapeDtypeStruct((1, *shape), np.float32))
    fitting = max(1, _BYTES // max(bytes_of_one, 1))
    return min(_CHUNK, 1 << fitting.bit_length() - 1)  # a power of two


def decodes(method: Method) -> bool:
    return callable(getattr(method, "decode", None))


def code_shape(method: Method, params) -> tuple[int, ...]:
    """``(d,)``, or ``(s, d)`` with slots; params have leaves ``[m, …]``."""
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), params)
    image = jax.ShapeDtypeStruct((1, *method.image_shape), np.float32)
    return jax.eval_shape(method.represent, one, image)[0].shape[1:]


@functools.partial(Program, layout=3, static_argnums=(0, 1, 2, 3))
def _encode(
    method: Method,
    what: str,
    summary: Callable | None,
    layout: Layout,
    params,
    renderer: Images | None,
    key,
    rows,
    start,
):
    """Representations for images, or for what a renderer draws from factors; ``start`` is the first row's place."""

    def drawn(rows, shared):
        (factors, places), (renderer, key) = rows, shared
        return unit_images(renderer.apart(factors, jax.vmap(jax.random.fold_in, (None, 0))(key, places)))

    if renderer is None:
        images = unit_images(rows)
    else:
        places = start + jnp.arange(len(rows), dtype=jnp.uint32)
        images = layout.spread(drawn, (rows, places), (renderer, key))

    def represented(params, images):
        representation = getattr(method, what)(params, images)
        return representation if summary is None else summary(representation)

    return layout.map(represented, params, images)


@functools.partial(Program, layout=1, static_argnums=(0, 1))
def _decode(method: Method, layout: Layout, members):
    return layout.map(lambda member, _: method.decode(*member), members)


def _in_chunks(
    program: Callable, rows: np.ndarray, batch_size: int, num_members: int, layout: Layout, progress: Progress = False
):
    """``program(chunk, start)`` over chunks of rows; its leaves ``[members, rows, …]`` without padded rows."""
    n, num_devices = len(rows), len(layout.devices)
    if not n:
        raise ValueError("images: must have at least one, got none")
    size = min(batch_size, n)
    size = -(-size // num_devices) * num_devices
    running = (program(executor.take(rows, places), np.uint32(places[0])) for places in executor.chunks(n, size))
    parts = []
    with reported(progress, "encoding", "images") as show:
        for part in executor.fetched(running):
            parts.append(part)
            show(min(len(parts) * size, n), n)
    return jax.tree.map(lambda *parts: np.concatenate(parts, axis=1)[:num_members, :n], *parts)


def _num_members(params) -> int:
    return jax.tree.leaves(params)[0].shape[0]


def _layout(params, devices) -> Layout:
    devices = jax.devices()[:1] if devices is None and on_cpu() else checked_devices(devices)
    layout = Layout.over(devices, _num_members(params))
    if layout.platform == "cpu":
        return layout
    each = -(-_num_members(params) // len(layout.devices))
    return dataclasses.replace(layout, at_once=min(each, _TOGETHER))


def _checked_factors(factors, render) -> np.ndarray:
    """Factors ``[n, k]`` for a renderer: class numbers, or real with a continuous one."""
    if not callable(render):
        raise ValueError(f"render: must be a function of factors, got {shown(render)}")
    rows = as_numpy(factors, "factors")
    if rows.ndim != 2 or rows.dtype.kind not in "iuf" or not len(rows):
        raise ValueError(f"factors: must be numbers [n, k], got shape {rows.shape} and dtype {rows.dtype}")
    return rows.astype(np.float32 if rows.dtype.kind == "f" else np.int32)


_FORMAT = 1
# Fields that are trees with leaves ``[m, …]``.
_OF_MEMBERS = ("params", "hyperparameters", "losses", "stopped")


@dataclasses.dataclass(frozen=True, eq=False)
class Zoo:
    """``m`` trained members.

    Attributes:
      config: what the members share.
      params: parameters with which the method represents images: a pytree with leaves ``[m, …]`` on the host.
      hyperparameters: NamedTuple with ``[m]`` each.
      losses: the method's NamedTuple with ``[m, blocks]`` each, means over ``log_every`` updates.
      stopped: ``[m]`` int32: the update that was not finite, or −1 for members that finished.
      labels: one dict per member, with its model, settings and seed.
      log_every: updates per block.
    """

    config: Config
    params: Any
    hyperparameters: Any
    losses: Any
    stopped: np.ndarray
    labels: tuple[dict, ...]
    log_every: int = 100

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        method = type(self.config.method).__name__
        return f"Zoo({method} on {self.config.data!r}, {len(self)} members: {in_brief(self.labels)})"

    def _repr_html_(self) -> str:
        names = dict.fromkeys(name for label in self.labels for name in label)
        losses = {f"final {name}": np.asarray(curve)[:, -1] for name, curve in self.losses._asdict().items()}
        rows = [
            [*(label.get(name) for name in names), *(last[row] for last in losses.values())]
            for row, label in enumerate(self.labels)
        ]
        title = f"{type(self.config.method).__name__} on {self.config.data}: {len(self):,} members"
        return html_table(title, [*names, *losses], rows)

    def __getitem__(self, which) -> "Zoo":
        """The members at an index (a zoo with one), a slice, several indices or a mask ``[m]``."""
        rows = np.atleast_1d(np.arange(len(self))[which])
        if not rows.size:
            raise IndexError(
                f"zoo: must be an index that selects at least one of {len(self)} members, got {shown(which)}"
            )
        trees = {name: getattr(self, name) for name in _OF_MEMBERS}
        taken = jax.tree.map(lambda leaf: np.asarray(leaf)[rows], trees)
        return dataclasses.replace(self, **taken, labels=tuple(self.labels[row] for row in rows))

    def select(self, **wanted) -> "Zoo":
        """The members with these labels: ``zoo.select(model="beta", beta=4.0, seed=[0, 1])``.

        Raises:
          ValueError: for a name that no label has, or if no member matches.
        """
        for name in wanted:
            if not any(name in label for label in self.labels):
                names = sorted({key for label in self.labels for key in label})
                raise ValueError(f"select: must have a label among {some_of(names)}, got {name!r}")
        several = {n: isinstance(value, Iterable) and not isinstance(value, str) for n, value in wanted.items()}
        values = {n: list(value) if several[n] else [value] for n, value in wanted.items()}
        rows = [i for i, label in enumerate(self.labels) if all(label.get(n) in values[n] for n in values)]
        if not rows:
            raise ValueError(f"select: no member has {wanted}")
        return self[rows]

    def encode(
        self,
        images,
        *,
        render=None,
        key=None,
        batch_size: int | None = None,
        devices=None,
        summary=None,
        progress: Progress = False,
    ) -> Posterior | Slots:
        """How every member represents images ``[n, h, w, c]`` (or factors, with a ``render``).

        Members are spread over ``devices`` (None: all on the default backend). A renderer that draws noise takes it
        from ``key`` (None: ``jax.random.key(0)``). ``summary`` is a pure function of how one member
        represents images, defined at module level and applied inside the program, so that masks need not be held.
        ``progress``: True draws a bar; a function is called with how many
        images are encoded and how many there are.

        Returns:
          :class:`~jaxdis.models.Posterior` means and variances ``[m, n, d]``, or :class:`~jaxdis.models.Slots`.
        """
        how = {"batch_size": batch_size, "devices": devices, "summary": summary, "progress": progress}
        return encode(self.config.method, self.params, images, render=render, key=key, **how)

    @single_precision
    def decode(self, codes, *, batch_size: int | None = None, devices=None) -> np.ndarray:
        """Expected images ``[m, n, h, w, c]`` in [0, 1] for codes ``[m, n, d]``, or ``[n, d]`` for every member (``[…,
        s, d]`` for slots)."""
        method, params = self.config.method, self.params
        if not decodes(method):
            raise ValueError(f"method: needs a decoder, {type(method).__name__} has none")
        check_one_array(codes, "codes")
        codes = as_numpy(codes, "codes")
        check_real(codes, "codes")
        codes = codes.astype(np.float32)
        m, shape = _num_members(params), code_shape(method, params)
        codes = np.broadcast_to(codes, (m, *codes.shape)) if codes.ndim == 1 + len(shape) else codes
        if codes.ndim != 2 + len(shape) or codes.shape[0] != m or codes.shape[2:] != shape or not codes.size:
            needed = ", ".join(map(str, shape))
            raise ValueError(f"codes: must have shape [n, {needed}] or [{m}, n, {needed}], got {codes.shape}")
        layout = _layout(params, devices)
        placed = layout.place(params)

        def program(part, start):
            members = (placed, layout.place(np.swapaxes(part, 0, 1)))
            return _decode(method, layout, members)

        at_once = checked_value("batch_size", Count | None, batch_size) or images_at_once(method.decode, params, shape)
        return _in_chunks(program, np.swapaxes(codes, 0, 1), at_once, m, layout)

    def reconstruct(self, images, *, batch_size: int | None = None, devices=None) -> np.ndarray:
        """Expected images ``[m, n, h, w, c]``, decoded from the posterior means for images ``[n, h, w, c]``."""
        how = {"batch_size": batch_size, "devices": devices}
        return self.decode(self.encode(images, **how)[0], **how)

    def export(self, member: int) -> dict:
        """One autoencoder as a flax variables tree: ``method.network.apply(zoo.export(0), images, method="encode")``.

        Kernels have flax's layout: a member trained with ``compute="matmul"`` is also valid with ``"conv"``.
        """
        if not isinstance(self.config.method, Vae):
            raise ValueError(f"method: must be an autoencoder, got {type(self.config.method).__name__}")
        member = checked_value("member", Annotated[int, Range(0, len(self) - 1)], member)
        return {"params": jax.tree.map(lambda leaf: np.asarray(leaf)[member], self.params)}

    def plot(self, loss: str | None = None, *, ax=None):
        """Draw a loss by update, a line per setting, the mean over its seeds; return the figure.

        Args:
          loss: a field in ``losses``; the first when None.
          ax: matplotlib axes to draw on; a new figure when None.

        Raises:
          ValueError: for another loss.
        """
        from jaxdis import plots

        fields = self.losses._asdict()
        loss = next(iter(fields)) if loss is None else loss
        if loss not in fields:
            raise ValueError(f"loss: must be one of {', '.join(fields)}, got {shown(loss)}")
        settings = [", ".join(f"{n}={v}" for n, v in label.items() if n != "seed") for label in self.labels]
        rows = {name: [row for row, other in enumerate(settings) if other == name] for name in settings}
        return plots.loss_curves({name: fields[loss][of] for name, of in rows.items()}, self.log_every, loss, ax=ax)

    def save(self, path: str | Path) -> None:
        """Write to one npz file, atomically; ``jaxdis.models.load`` reads it."""
        write_arrays(path, *self._contents())

    def packed(self) -> dict[str, np.ndarray]:
        """The arrays in such a file, for writing them elsewhere."""
        return files.packed(*self._contents())

    def _contents(self) -> tuple[dict, dict[str, np.ndarray]]:
        described = {"config": describe(self.config), "labels": list(self.labels), "log_every": self.log_every}
        header = {"format": _FORMAT, **described}
        arrays = {f"params/{name}": leaf for name, leaf in named_leaves(self.params).items()}
        for group in ("hyperparameters", "losses"):
            arrays |= {f"{group}/{name}": column for name, column in getattr(self, group)._asdict().items()}
        return header, {**arrays, "stopped": self.stopped}


@single_precision
def load(path: str | Path, method: Method | None = None) -> Zoo:
    """Read a zoo that :meth:`Zoo.save` wrote.

    Args:
      path: path to the npz file.
      method: the method if it is the user's own or has the user's own network, since functions cannot be stored.

    Raises:
      ValueError: for a file that is damaged or whose arrays do not fit its method.
    """
    header, arrays = read_arrays(path)
    if header.get("format") != _FORMAT:
        raise DamagedFile(f"{path}: must be a zoo of format {_FORMAT}, got {header.get('format')!r}")
    try:
        return _unpacked(header, arrays, method, str(path))
    except (KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        words = f"{type(error).__name__}: {error}"
        raise DamagedFile(f"{path}: must have the header and arrays of a zoo, got {words}") from None
    except DamagedFile:
        raise
    except ValueError as error:  # a value that a type of the header does not allow
        raise ValueError(f"{path}: {error}") from None


def _unpacked(header: dict, arrays: dict[str, np.ndarray], method: Method | None, path: str) -> Zoo:
    config = _config(header["config"], method)
    method, m = config.method, len(header["labels"])
    begin = jax.vmap(lambda key: method.params(method.begin(key)))
    shapes = jax.eval_shape(begin, jax.random.split(jax.random.key(0), m))
    groups: dict[str, dict] = {"params": {}, "hyperparameters": {}, "losses": {}}
    for name, array in arrays.items():
        group, slash, rest = name.partition("/")
        if slash:
            groups[group][rest] = array
    return Zoo(
        config=config,
        params=with_leaves(shapes, groups["params"], path),
        hyperparameters=type(method.settings())(**groups["hyperparameters"]),
        losses=method.losses(**groups["losses"]),
        stopped=arrays["stopped"],
        labels=tuple(header["labels"]),
        log_every=header["log_every"],
    )


def concatenate(zoos: Sequence[Zoo]) -> Zoo:
    """Join several zoos into one; only variants may differ, and the first config is kept.

    Raises:
      ValueError: if the zoos differ in data, method, updates or ``log_every``.
    """
    zoos = list(zoos)
    if not zoos or not all(isinstance(zoo, Zoo) for zoo in zoos):
        raise ValueError(f"zoos: must have at least one zoo, got {[type(zoo).__name__ for zoo in zoos]}")
    first = zoos[0]
    for zoo in zoos[1:]:
        own, others = _shared(zoo, first), _shared(first, first)
        differing = [name for name in others if own[name] != others[name]]
        if differing:
            raise ValueError(f"zoos: need the same {', '.join(differing)} to be concatenated")
    trees = ({name: getattr(zoo, name) for name in _OF_MEMBERS} for zoo in zoos)
    joined = jax.tree.map(lambda *leaves: np.concatenate(leaves), *trees)
    return dataclasses.replace(first, **joined, labels=tuple(label for zoo in zoos for label in zoo.labels))


def _shared(zoo: Zoo, first: Zoo) -> dict:
    """What zoos must share to be one."""
    method = zoo.config.method.alone(first.config.method.trained[0])
    config = describe(dataclasses.replace(zoo.config, method=method))
    return {**config, "log_every": zoo.log_every, "losses": zoo.losses[0].shape[1]}


def _config(description: dict, method: Method | None) -> Config:
    """The config from a description; a given method stands in for one that cannot be restored."""
    if method is None:
        try:
            return restored(description)
        except UnknownType as error:
            words = "needs the method that this zoo was trained with; pass it to load"
            raise ValueError(f"method: {words} ({error})") from None
    stored = description["method"]
    method = method.resolved(tuple(stored["image_shape"]))
    passed, other = describe(method.alone("one")), describe(method.alone("another"))
    # Members of other variants represent images alike: what names the variant may differ.
    differing = sorted(name for name in passed if passed[name] == other[name] and stored.get(name) != passed[name])
    if differing:
        raise ValueError(f"method: must be that of the zoo, got one with another {', '.join(differing)}")
    try:
        return restored(description)
    except UnknownType:
        return dataclasses.replace(restored({**description, "method": describe(Vae())}), method=method)


@single_precision
def traversals(
    zoo: Zoo, images, *, values=None, num_values: int = 9, reach: float = 2.0, relative: bool = False
) -> np.ndarray:
    """Decode images whose codes move one at a time; the others stay at the posterior mean.

    Args:
      zoo: ``m`` members.
      images: ``[n, h, w, c]``, whose posterior means are traversed.
      values: ``[t]``, what the code takes; None: ``num_values`` values, evenly spaced from −reach to reach.
      num_values, reach: number and range of the default values.
      relative: whether values count in the code's standard deviations over ``images``, from its mean over them. This
        is useful for codes that are far from the prior, and needs several images.

    Returns:
      ``[m, n, d, t, h, w, c]`` float32 in [0, 1].

    Raises:
      ValueError: for images that do not suit the zoo, or relative values from a single image.

    Example: ``jaxdis.plots.image_grid(jaxdis.models.traversals(zoo, images[:1])[0, 0])``, one row per code.
    """
    rows = checked_images(images, "images", zoo.config.method.image_shape)
    if relative and len(rows) < 2:
        raise ValueError(f"images: relative values need at least 2 images, got {len(rows)}")
    values = np.linspace(-reach, reach, num_values) if values is None else np.asarray(values)
    codes = zoo.encode(rows)[0]
    m, n, d = codes.shape
    center, spread = (codes.mean(1), codes.std(1)) if relative else (np.zeros((m, d)), np.ones((m, d)))
    taken = center[:, :, None] + spread[:, :, None] * values
    moved = np.broadcast_to(codes[:, :, None, None, :], (m, n, d, len(values), d)).copy()
    for code in range(d):
        moved[:, :, code, :, code] = taken[:, None, code, :]
    decoded = zoo.decode(moved.reshape(m, -1, d).astype(np.float32))
    return decoded.reshape(m, n, d, len(values), *decoded.shape[2:])


@single_precision
def reconstructions(zoo: Zoo, images) -> np.ndarray:
    """Images next to each member's reconstructions: ``[m, n, 2, h, w, c]`` float32 in [0, 1], originals first."""
    rows = checked_images(images, "images", zoo.config.method.image_shape)
    originals = rows.astype(np.float32) * np.float32(1 / 255 if rows.dtype == np.uint8 else 1)
    decoded = zoo.reconstruct(rows)
    return np.stack([np.broadcast_to(originals, decoded.shape), decoded], axis=2)


def slot_parts(zoo: Zoo, images, *, batch_size: int | None = None, devices=None) -> Parts:
    """Show how images are reconstructed, their masks, and each slot's own picture.

    Args:
      zoo: ``m`` members whose method has slots.
      images: ``[n, h, w, c]``, uint8 or real in [0, 1].
      batch_size, devices: as in :meth:`jaxdis.models.Zoo.encode`.

    Returns:
      :class:`~jaxdis.models.Parts` with ``reconstruction [m, n, h, w, c]``, ``masks [m, n, s, h, w]`` and ``pictures
      [m, n, s, h, w, c]``, float32. Masks are those by :meth:`~jaxdis.models.Zoo.encode`: for MONet with attention
      masks, the reconstruction differs from :meth:`~jaxdis.models.Zoo.reconstruct`, which only has codes.

    Raises:
      ValueError: for a zoo whose method has no slots, or images that do not suit it.
    """
    method = zoo.config.method
    if not isinstance(method, SlotMethod):
        raise ValueError(f"zoo: must be a method with slots, got {type(method).__name__}")
    return encode(method, zoo.params, images, batch_size=batch_size, devices=devices, what="parts")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Encoder:
    """``images [n, h, w, c] → codes [m, n, d]`` (posterior means) by a zoo, as a value that ``jit`` accepts."""

    params: Any
    method: Method = dataclasses.field(metadata={"static": True})

    @classmethod
    def of(cls, zoo: Zoo) -> "Encoder":
        return cls(zoo.params, zoo.config.method)

    def __call__(self, images: Num[Array, "n h w c"]) -> Float[Array, "m n d"]:
        check_image_shape(images.shape, "images", self.method.image_shape)
        pixels = unit_images(images)
        return jax.lax.map(lambda params: self.method.represent(params, pixels)[0], self.params)
