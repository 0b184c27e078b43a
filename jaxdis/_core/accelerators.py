"""Accelerators that need not be here: programs compile for them, and what comes out says how fast they may be.

Compiling needs the compilers of the extra ``aot`` (``pip install "jaxdis[aot]"``), and no device.
"""

import dataclasses
import json
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import jax


@dataclasses.dataclass(frozen=True)
class Target:
    """A kind of accelerator and its limits.

    Attributes:
      topology: how XLA names it; for a GPU, its description.
      bytes_per_second: of its memory.
      flops_per_second: of float32 products and sums at full precision, which on TPUs take six passes of bfloat16.
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
        """Descriptions of the devices for which programs compile; what runs in this process then runs on the CPU."""
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
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            raise RuntimeError(f"cannot compile for {self.title}: {reason}; {advice}") from error
        return list(topology.devices)

    @property
    def lowering(self) -> str:
        return {"gpu": "cuda", "tpu": "tpu"}[self.platform]


def _target(title: str, topology: str | dict, bytes_per_second: float | int, memory: float | int, **limits) -> Target:
    if isinstance(topology, dict):  # of a GPU, what XLA knows of the device for which it compiles
        given = {"description": title, "bandwidth": bytes_per_second, "memory": memory, **topology}
        topology = Path(__file__).with_name("gpu.pbtxt").read_text().format(**given)
    return Target(title, topology=topology, bytes_per_second=float(bytes_per_second), memory=float(memory), **limits)


TARGETS = {name: _target(**row) for name, row in json.loads(Path(__file__).with_suffix(".json").read_text()).items()}


def placed(tree, layout, axis: str | None = None):
    """The shapes of a tree of arrays on a layout's devices: every array whole, or split along an axis."""
    from jax.sharding import NamedSharding, PartitionSpec

    sharding = NamedSharding(layout.mesh, PartitionSpec() if axis is None else PartitionSpec(axis))
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), tree)


# What a compiled program launches, moves and computes, counted in the text of its instructions, bounds its speed from
# below. The counts follow the optimized module: a fusion is one kernel, which reads its operands and writes its results
# once; a loop counts as often as it turns. How often a loop turns whose end depends on the data is not in the text:
# ``turns`` says so by its name.
SHAPE = re.compile(r"\b(pred|bf16|f8\w+|[sufc]\d+)\[([\d,]*)\]")
INSTRUCTION = re.compile(r"^\s+(?P<root>ROOT )?%?(?P<name>[\w.\-]+) = (?P<rest>.*)$")
HEADER = re.compile(r"^(?P<entry>ENTRY )?%?(?P<name>[\w.\-]+) \(.*\{$")
# A product by a library: which axes of its first operand are summed, and the type of the scratch memory it is given.
SUMMED = re.compile(r'"lhs_contracting_dimensions":\[([^\]]*)\]')
SCRATCH = re.compile(r", s8\[\d+\]\S*\)$")
CALLED = re.compile(r"\b(calls|to_apply|body|condition|true_computation|false_computation)=%?([\w.\-]+)")
BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
TURNS = re.compile(r'known_trip_count":\{"n":"(\d+)"')
NAME = re.compile(r'op_name="([^"]*)"')
# These cost nothing by themselves.
FREE = {
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id", "replica-id",
    "opt-barrier", "add-dependency", "copy-done", "copy-start", "async-done", "domain",
}  # fmt: skip
MOVING = FREE | {
    "broadcast", "reshape", "transpose", "slice", "iota", "copy", "concatenate", "pad", "dynamic-slice",
    "dynamic-update-slice", "gather", "while", "call", "conditional",
}  # fmt: skip
# These read all of their operands, whatever their results are.
WHOLE = {"reduce", "reduce-window", "dot", "convolution", "sort", "scatter"}
COLLECTIVES = {"all-reduce", "all-gather", "collective-permute", "reduce-scatter", "all-to-all", "collective-broadcast"}
# Floats that are combined, by a function of two of them, with what is in their places.
SCATTER = re.compile(r"= f(?:32|64|16)\[\S* scatter\((?P<how>.*)to_apply=%?(?P<function>[\w.\-]+)")
ADDING = re.compile(r"^%?(?P<name>[\w.\-]+) \(.*\{\n(?:\s+%.*\n)*\s+ROOT \S+ = \S+ add\(", re.MULTILINE)
# A sort compares each element about so often, and passes over the data so often.
SORT_FLOPS, SORT_PASSES = 200, 8


@dataclasses.dataclass(frozen=True)
class Instruction:
    name: str
    type: str
    opcode: str
    operands: tuple[str, ...]
    text: str
    attributes: str
    is_root: bool

    @property
    def called(self) -> dict[str, str]:
        return dict(CALLED.findall(self.attributes))

    @property
    def branches(self) -> list[str]:
        listed = BRANCHES.search(self.attributes)
        names = listed.group(1).split(",") if listed else [self.called[key] for key in self.called if "_comp" in key]
        return [name.strip().lstrip("%") for name in names]

    @property
    def scope(self) -> str:
        named = NAME.search(self.attributes)
        return named.group(1) if named else self.name


@dataclasses.dataclass(frozen=True)
class Cost:
    """What one call to a program costs: kernels, the host's waits for the device, bytes moved, operations."""

    launches: float = 0.0
    syncs: float = 0.0
    bytes: float = 0.0
    flops: float = 0.0
    collectives: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(*(a + b for a, b in zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)))

    def __mul__(self, count: float) -> "Cost":
        return Cost(*(count * a for a in dataclasses.astuple(self)))


def sums_in_any_order(text: str) -> int:
    """How many instructions of a program for a GPU add floats atomically, in an order that differs between runs."""
    adding = set(ADDING.findall(text))
    return sum("unique_indices=true" not in how for how, function in SCATTER.findall(text) if function in adding)


def cost_of(text: str, turns: Callable[[str], float]) -> Cost:
    """Add up the instructions of a module; ``turns``: how often a loop without a known number turns, by its scope."""
    module = Module(text)
    return module.cost(module.entry, turns)


class Module:
    def __init__(self, text: str):
        self.computations: dict[str, dict[str, Instruction]] = {}
        self.entry = ""
        current = None
        for line in text.splitlines():
            if current is None:
                header = HEADER.match(line)
                if header:
                    current = self.computations.setdefault(header["name"], {})
                    self.entry = header["name"] if header["entry"] else self.entry
            elif line.startswith("}"):
                current = None
            elif (instruction := _parsed(line)) is not None:
                current[instruction.name] = instruction

    def cost(self, name: str, turns: Callable[[str], float]) -> Cost:
        total = Cost()
        for instruction in self.computations.get(name, {}).values():
            total += self._cost(self.computations[name], instruction, turns)
        return total

    def _cost(self, around: dict[str, Instruction], instruction: Instruction, turns) -> Cost:
        called = instruction.called
        match instruction.opcode:
            case opcode if opcode in FREE:
                return Cost()
            case "while":
                known = TURNS.search(instruction.attributes)
                count = float(known.group(1)) if known else turns(instruction.scope)
                once = self.cost(called["body"], turns) + self.cost(called["condition"], turns)
                return once * count + Cost(syncs=0.0 if known else count)
            case "conditional":
                branches = [self.cost(branch, turns) for branch in instruction.branches]
                return max(branches, key=lambda cost: cost.bytes + 1e4 * cost.launches, default=Cost()) + Cost(syncs=1)
            case "call":
                return self.cost(called["to_apply"], turns)
            case opcode:
                collective = float(opcode.removesuffix("-start") in COLLECTIVES)
                moved, flops = self._moved(around, instruction), self.flops(around, instruction)
                return Cost(1.0, 0.0, float(moved), float(flops), collective)

    def _moved(self, around: dict[str, Instruction], instruction: Instruction) -> float:
        operands = [size_of(around[name].type) for name in instruction.operands if name in around]
        match instruction.opcode:
            case "fusion":
                return self._moved_by_fusion(instruction)
            case "dynamic-slice" | "gather":
                return 2 * size_of(instruction.type)
            case "dynamic-update-slice":
                return 2 * operands[1] if len(operands) > 1 else size_of(instruction.type)
            case "sort":
                return SORT_PASSES * size_of(instruction.type)
            case "custom-call":
                return size_of(SCRATCH.sub(")", instruction.type)) + sum(operands)
            case _:
                return size_of(instruction.type) + sum(operands)

    def _moved_by_fusion(self, fusion: Instruction) -> float:
        """Bytes in results, and in operands that the results need: of what is sliced, only the slices."""
        inside = self.computations.get(fusion.called.get("calls", ""), {})
        needed = dict.fromkeys(inside, 0.0)  # elements
        roots = [instruction for instruction in inside.values() if instruction.is_root]
        if roots and roots[0].opcode == "tuple":
            roots = [inside[name] for name in roots[0].operands if name in inside]
        for instruction in reversed(inside.values()):
            if instruction.is_root:
                needed[instruction.name] = elements_of(instruction.type)
            for number, name in enumerate(instruction.operands):
                if name not in inside or (number == 0 and instruction.opcode in ("dynamic-update-slice", "scatter")):
                    continue  # another computation, or what is updated in place
                whole = elements_of(inside[name].type)
                read = whole if instruction.opcode in WHOLE else needed[instruction.name]
                needed[name] = min(whole, needed[name] + read)
        parameters = [instruction for instruction in inside.values() if instruction.opcode == "parameter"]
        read = sum(size_of(one.type) * needed[one.name] / max(elements_of(one.type), 1.0) for one in parameters)
        return read + sum(self._written(inside, root) for root in roots)

    def _written(self, inside: dict[str, Instruction], root: Instruction) -> float:
        source = root
        while source.opcode in ("bitcast", "convert") and source.operands and source.operands[0] in inside:
            source = inside[source.operands[0]]
        if source.opcode == "dynamic-update-slice":
            return 2 * size_of(inside[source.operands[1]].type)
        if source.opcode == "scatter":
            return min(size_of(root.type), 2 * size_of(inside[source.operands[-1]].type))
        return size_of(root.type)

    def flops(self, around: dict[str, Instruction], instruction: Instruction) -> float:
        elements = elements_of(instruction.type)
        match instruction.opcode:
            case opcode if opcode in MOVING:
                return 0.0
            case "fusion":
                inside = self.computations.get(instruction.called.get("calls", ""), {})
                return sum(self.flops(inside, inner) for inner in inside.values())
            case "dot":
                shape = shapes_of(around[instruction.operands[0]].type)[0][1]
                contracted = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", instruction.attributes)
                return 2 * elements * math.prod(shape[int(axis)] for axis in contracted.group(1).split(",") if axis)
            case "custom-call" if summed := SUMMED.search(instruction.attributes):
                shape = shapes_of(around[instruction.operands[0]].type)[0][1]
                axes = [int(axis.strip(' "')) for axis in summed.group(1).split(",") if axis]
                return 2.0 * math.prod(shapes_of(instruction.type)[0][1]) * math.prod(shape[axis] for axis in axes)
            case "custom-call":
                return elements_of(SCRATCH.sub(")", instruction.type))
            case "convolution":
                kernel = shapes_of(around[instruction.operands[1]].type)[0][1]
                labels = re.search(r"dim_labels=\w+_(\w+)->", instruction.attributes).group(1)
                return 2 * elements * math.prod(kernel) / kernel[labels.index("o")]
            case "reduce" | "reduce-window":
                return elements_of(around[instruction.operands[0]].type) if instruction.operands else elements
            case "sort":
                return SORT_FLOPS * elements
            case _:
                return elements


def shapes_of(type_: str) -> list[tuple[str, list[int]]]:
    return [(dtype, [int(size) for size in shape.split(",") if size]) for dtype, shape in SHAPE.findall(type_)]


def size_of(type_: str) -> float:
    """Bytes in an array or in a tuple of arrays."""
    return float(sum(_width(dtype) * math.prod(shape) for dtype, shape in shapes_of(type_)))


def _width(dtype: str) -> float:
    """Bytes in an element, such as ``bf16`` or ``s4``."""
    return 1.0 if dtype == "pred" else int(re.search(r"\d+", dtype).group()) / 8


def elements_of(type_: str) -> float:
    return float(sum(math.prod(shape) for _, shape in shapes_of(type_)))


def _parsed(line: str) -> Instruction | None:
    found = INSTRUCTION.match(line)
    if found is None:
        return None
    type_, rest = _split_at(found["rest"], 0 if found["rest"].startswith("(") else None)
    opcode, _, rest = rest.strip().partition("(")
    inside, attributes = _split_at("(" + rest, 0)
    operands = tuple(re.findall(r"%([\w.\-]+)", inside))
    return Instruction(found["name"], type_, opcode, operands, inside, attributes, bool(found["root"]))


def _split_at(text: str, opening: int | None) -> tuple[str, str]:
    """A text in two: after the bracket that closes the first, or at the first space."""
    if opening is None:
        first, _, rest = text.partition(" ")
        return first, rest
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[: place + 1], text[place + 1 :]
    return text, ""
