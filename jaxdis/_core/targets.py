"""Accelerators that need not be here: programs compile for them, and what comes out says how fast they may be.

Compiling needs the compilers of the extra ``aot`` (``pip install "jaxdis[aot]"``), and no device.
"""

import dataclasses
import os
from typing import Literal

import jax

# Of a GPU, as XLA describes one to itself: what it knows of the device for which it compiles.
_GPU = """
gpu_device_info {{
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: {shared_per_core}
  threads_per_core_limit: 2048
  core_count: {cores}
  fpus_per_core: {units}
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: {bandwidth}
  l2_cache_size: {cache}
  clock_rate_ghz: {clock}
  device_memory_size: {memory}
  shared_memory_per_block_optin: {shared_per_block}
  cuda_compute_capability {{ major: {capability} }}
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 7 }}
runtime_version {{ major: 12 minor: 8 patch: 0 }}
device_description_str: "{description}"
"""


@dataclasses.dataclass(frozen=True)
class Target:
    """A kind of accelerator and its limits.

    Attributes:
      title: what it is called.
      platform: the platform whose forms of primitives it takes.
      topology: how XLA names it; for a GPU, its description.
      bytes_per_second: of its memory.
      flops_per_second: of float32 products and sums at full precision.
      memory: bytes.
      copied_per_second: bytes from ordinary memory of the host; as measured on a server with an H200.
    """

    title: str
    platform: Literal["gpu", "tpu"]
    topology: str
    bytes_per_second: float
    flops_per_second: float
    memory: float
    copied_per_second: float = 9e9

    def devices(self) -> list:
        """Descriptions of the devices for which programs compile; what runs in this process then runs on the CPU.

        Raises:
          RuntimeError: if no compiler for the platform is installed.
        """
        from jax.experimental import topologies

        if not jax.config.jax_platforms:
            # Else the plugin of a GPU looks for a driver when it is loaded, and without one it cannot compile either.
            jax.config.update("jax_platforms", "cpu")
        try:
            if self.platform == "gpu":
                topology = topologies.get_topology_desc(
                    platform="cuda", topology_name="gpu", target_config=self.topology, topology="1x1x1"
                )
            else:
                os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")  # ask no metadata server which TPU this machine has
                os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
                topology = topologies.get_topology_desc(platform="tpu", topology_name=self.topology)
        except Exception as error:  # what is raised depends on the plugin that is missing
            advice = 'pip install "jaxdis[aot]" installs the compilers'
            raise RuntimeError(f"cannot compile for {self.title}: {_first_line(error)}; {advice}") from error
        return list(topology.devices)

    @property
    def lowering(self) -> str:
        """The platform's name where programs are lowered."""
        return {"gpu": "cuda", "tpu": "tpu"}[self.platform]


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _gpu(title: str, flops: float, **description) -> Target:
    text = _GPU.format(description=title, **description)
    return Target(title, "gpu", text, float(description["bandwidth"]), flops, float(description["memory"]))


_HOPPER = {
    "shared_per_core": 233472,
    "shared_per_block": 232448,
    "cores": 132,
    "units": 128,
    "clock": 1.98,
    "capability": 9,
}
_AMPERE = {
    "shared_per_core": 167936,
    "shared_per_block": 166912,
    "cores": 108,
    "units": 64,
    "clock": 1.41,
    "capability": 8,
}

TARGETS = {
    "h100": _gpu(
        "NVIDIA H100 80GB HBM3", 60e12, bandwidth=3_352_320_000_000, cache=50 << 20, memory=84_929_347_584, **_HOPPER
    ),
    "h200": _gpu("NVIDIA H200", 60e12, bandwidth=4_800_000_000_000, cache=60 << 20, memory=150_754_820_096, **_HOPPER),
    "a100": _gpu(
        "NVIDIA A100-SXM4-80GB", 19.5e12, bandwidth=2_039_000_000_000, cache=40 << 20, memory=84_987_740_160, **_AMPERE
    ),
    # Products of float32 at full precision take six passes of bfloat16.
    "v5e": Target("TPU v5e", "tpu", "v5e:2x2", 819e9, 197e12 / 6, 16e9),
    "v6e": Target("TPU v6e", "tpu", "v6e:2x2", 1640e9, 918e12 / 6, 32e9),
}


def placed(tree, layout, axis: str | None = None):
    """The shapes of a tree of arrays on a layout's devices: every array whole, or split along an axis."""
    from jax.sharding import NamedSharding, PartitionSpec

    sharding = NamedSharding(layout.mesh, PartitionSpec() if axis is None else PartitionSpec(axis))

    def shape(leaf):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    return jax.tree.map(shape, tree)
