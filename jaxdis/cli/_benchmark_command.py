"""``jaxdis benchmark``: how fast this machine scores and trains."""

import dataclasses
import itertools
from pathlib import Path
from typing import Literal

from jaxdis._core import interrupts
from jaxdis._core.display import tell_now_and_then
from jaxdis.cli import _terminal as terminal


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """Measure members scored per second for each metric and zoo size, training updates per second, and compile times.

    The most expensive metrics come last, so that a short run still measures all others. To compare an accelerator with
    another machine, pass both records to --compare.
    """

    minutes: float | None = None
    """Limit of the total wall time: 8 by default, 60 with --first-hour.
    Measurements that would not end in time are left out and listed."""
    metrics: tuple[str, ...] = ("all",)
    """Names of `jaxdis list metrics`, or all; with options as mig:bins=30."""
    zoo_sizes: tuple[int, ...] = (1, 16, 256)
    """Numbers of members that are scored or trained together."""
    samples: int = 10_000
    """Samples per member; half as many are held out."""
    out: Path | None = None
    """JSON file to write."""
    plot: Path | None = None
    """PNG file to write: throughput against zoo size."""
    compare: tuple[Path, Path] | None = None
    """Two such JSON files: print how many times as fast the second is, and measure nothing."""
    against: Path | None = None
    """Such a JSON file of an earlier version: measure, print the same ratios, and fail if one is too low."""
    slowest: float = 0.8
    """With --against: the lowest ratio that passes."""
    cold: bool = False
    """Compile everything, ignoring programs that earlier runs have left on disk."""
    target: Literal["h100", "h200", "a100", "v5e", "v6e"] | None = None
    """An accelerator that need not be here: compile each metric for it, and estimate what a member costs there.
    Nothing is measured. The estimate is the longest of three times.
    These are 3 µs for each kernel and 10 µs for each wait of the host, bytes by bandwidth, and operations by the peak.
    On an H200, most metrics took 0.7 to 3 times as long. This needs `pip install "jaxdis[aot]"`."""
    members: int = 1024
    """With --target: members of the zoo, of which as many run together as `evaluate` chooses."""
    deterministic: bool = False
    """With --target: as `evaluate(…, deterministic=True)` compiles metrics for a GPU."""
    methods: tuple[str, ...] = ()
    """With --target: methods of which one update is compiled, or all.
    They are vae_mlp, vae_conv, resnet_vae, infogan, monet, genesis and iodine."""
    html: Path | None = None
    """With --target: page to write, with a roofline."""
    first_hour: Path | None = None
    """Folder: the measurements to make first on a new accelerator, within an hour, in first_hour.json.
    These are scores of small and large zoos, training, and differences from the CPU and between runs.
    The times stand beside estimates. A run that is stopped goes on where it was."""

    def run(self) -> None:
        from jaxdis._core.options import Count, Positive, checked_value

        if self.compare is not None:
            from jaxdis.cli._throughput import print_ratios, ratios, read_record

            names = [path.stem for path in self.compare]
            print_ratios(ratios(*map(read_record, self.compare)), *names)
            return
        minutes = 60.0 if self.first_hour is not None else 8.0
        minutes = checked_value("--minutes", Positive, minutes if self.minutes is None else self.minutes)
        counts = {"--samples": (self.samples,), "--members": (self.members,), "--zoo-sizes": self.zoo_sizes or (0,)}
        for option, given in counts.items():
            for count in given:
                checked_value(option, Count, count)
        # Before minutes of measuring.
        terminal.check_outputs({"--out": self.out, "--plot": self.plot, "--html": self.html}, ())
        if self.plot is not None or self.html is not None:
            terminal.check_pictures()
        if self.target is not None:
            self._estimate()
        elif self.first_hour is not None:
            from jaxdis.cli._accelerators import measure_first

            self._start()
            result = measure_first(self.first_hour, samples=self.samples, minutes=minutes)
            terminal.write(f"wrote {result}")
        else:
            self._measure(minutes)

    def _measure(self, minutes: float) -> None:
        self._start()
        from jaxdis._core.files import write_text
        from jaxdis._core.options import Positive, checked_value
        from jaxdis.cli import _throughput as benchmark
        from jaxdis.cli._metric_texts import plan_of_texts

        plan = plan_of_texts(self.metrics)
        before = None if self.against is None else benchmark.read_record(self.against)
        checked_value("--slowest", Positive, self.slowest)
        with terminal.bar("benchmark", "measurements") as show:
            record = benchmark.measure(plan, self.zoo_sizes, minutes=minutes, samples=self.samples, progress=show)
        if self.out is not None:
            write_text(self.out, benchmark.to_json(record))
        if self.plot is not None:
            from jaxdis import plots

            terminal.write_figure(self.plot, plots.throughput(record.rows))
        benchmark.print_record(record)
        if before is None:
            return
        found = list(benchmark.ratios(before, record))
        benchmark.print_ratios(found, self.against.stem, "now")
        slow = [f"{name} at a zoo of {size}: {ratio:.2f}" for name, size, _, _, ratio in found if ratio < self.slowest]
        if slow:
            raise RuntimeError(f"slower than {self.slowest:g} times {self.against}: {'; '.join(slow)}")

    def _estimate(self) -> None:
        from jaxdis._core.accelerators import TARGETS
        from jaxdis._core.files import write_text
        from jaxdis._core.options import look_up
        from jaxdis.cli import _accelerators as estimates
        from jaxdis.cli._metric_texts import plan_of_texts

        plan, names = dict(plan_of_texts(self.metrics)), estimates.TRAINED if self.methods == ("all",) else self.methods
        methods = {name: look_up(name, estimates.TRAINED, "method") for name in names}
        target = TARGETS[self.target]
        target.devices()  # says what is missing before anything else
        scored, rows = estimates.estimates(plan, target, self.members, self.samples, self.deterministic), []
        for row in itertools.chain(scored, estimates.updates(methods, target, self.members)):
            rows.append(row)
            tell_now_and_then(f"{len(rows)} of {len(plan) + len(methods)} compiled")
        estimates.print_estimates(target, plan, rows)
        for path, text in ((self.out, estimates.to_json), (self.html, estimates.to_page)):
            if path is not None:
                write_text(path, text(target, rows))

    def _start(self) -> None:
        import atexit
        import shutil
        import tempfile

        folder = None
        if self.cold:
            folder = Path(tempfile.mkdtemp(prefix="jaxdis-"))
            interrupts.unfinished.add(str(folder))
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
        terminal.start(folder)
