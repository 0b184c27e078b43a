"""Signals end the command line at any moment, on a terminal and in a pipe."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from jaxdis.cli import _score_tables as arrivals
from jaxdis.cli import _terminal as outputs
from jaxdis.evaluation._scores import Scores

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")

# A second is promised on a machine that has nothing else to do.
SECONDS = 3.0
# Programs inherit that Ctrl-C is ignored, as under nohup, and have no terminal that sends it unless they ask for one.
BEGIN = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGINT, signal.SIG_DFL)
if os.isatty(0):
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


class Program:
    """A program on a terminal of its own, or in a pipe."""

    def __init__(self, folder: Path, *arguments: str, terminal: bool = True):
        self.terminal, self._printed = terminal, ""
        self._end, other = os.openpty() if terminal else os.pipe()
        known = {"PYTHONPATH": os.getcwd(), "JAXDIS_CACHE": str(folder / "cache"), "TMPDIR": str(folder)}
        streams = {"stdin": other if terminal else subprocess.DEVNULL, "stdout": other, "stderr": other}
        command, env = [sys.executable, "-c", BEGIN, *arguments], os.environ | known
        self._process = subprocess.Popen(command, env=env, cwd=folder, start_new_session=True, **streams)
        os.close(other)

    def printed(self) -> str:
        while select.select([self._end], [], [], 0.02)[0]:
            piece = b""
            with contextlib.suppress(OSError):  # a terminal that nobody holds any more
                piece = os.read(self._end, 65536)
            if not piece:
                break
            self._printed += piece.decode(errors="replace")
        return self._printed

    def wait_for(self, condition) -> None:
        deadline = time.monotonic() + 120
        while not condition():
            assert self._process.poll() is None, self.printed()
            assert time.monotonic() < deadline, self.printed()
            time.sleep(0.02)

    def stop(self, number: int = signal.SIGINT) -> tuple[int, str]:
        """Press Ctrl-C or send a signal; returns the exit code and the last line."""
        begun = time.monotonic()
        if self.terminal and number == signal.SIGINT:
            os.write(self._end, b"\x03")
        else:
            self._process.send_signal(number)
        code = self._process.wait(timeout=60)
        assert time.monotonic() - begun < SECONDS
        printed = self.printed()
        os.close(self._end)
        assert "Traceback" not in printed
        assert "Exception ignored" not in printed
        # A terminal shows ^C, last of all if the program had just ended.
        lines = [line for line in printed.replace("\r", "\n").splitlines() if line.strip() not in ("", "^C")]
        return code, (lines or [""])[-1]


@pytest.fixture
def codes_file(tmp_path):
    rng = np.random.default_rng(0)
    values = rng.integers(0, (3, 4), (300, 2))
    path = tmp_path / "codes.npz"
    np.savez(path, codes=rng.normal(size=(300, 3)).astype(np.float32), factors=values)
    return path


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("seconds", [0.05, 0.5])
def test_ctrl_c_while_libraries_load(tmp_path, seconds, terminal):
    """After Python itself has started, which takes longer beside other programs and catches no signal."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import jaxdis.__main__"], check=True)
    seconds += 2 * (time.monotonic() - began)
    program = Program(tmp_path, "-m", "jaxdis", "show", "nothing.npz", terminal=terminal)
    time.sleep(seconds)
    code, said = program.stop()
    assert code == 130 or (code == 2 and "nothing.npz" in said)  # it was quicker
    assert code == 2 or said.endswith("jaxdis: stopped; nothing was written: run the same command again")


@pytest.mark.parametrize(
    ("number", "code", "terminal"),
    [(signal.SIGINT, 130, True), (signal.SIGTERM, 143, True), (signal.SIGHUP, 129, False)],
)
def test_a_signal_while_a_program_is_compiled_keeps_the_scores_that_have_arrived(codes_file, number, code, terminal):
    out = codes_file.with_name("scores.csv")
    metrics = ("--metrics", "mig", "dci_forest", "--csv", str(out))
    program = Program(codes_file.parent, "-m", "jaxdis", "score", str(codes_file), *metrics, terminal=terminal)
    program.wait_for(out.exists)
    time.sleep(0.3)  # the forest takes seconds to compile
    ended, said = program.stop(number)
    assert ended == code
    assert said.endswith(f"stopped; what was computed until then is in {out}")
    assert out.read_text().startswith("member,mig,factors\n")
    assert not [path for path in codes_file.parent.iterdir() if path.suffix == ".tmp"]


def test_a_temporary_cache_is_removed(tmp_path):
    program = Program(tmp_path, "-m", "jaxdis", "benchmark", "--cold", terminal=False)
    program.wait_for(lambda: list(tmp_path.glob("jaxdis-*/*")))
    assert program.stop(signal.SIGTERM)[0] == 143
    assert not list(tmp_path.glob("jaxdis-*"))


HOSTILE = {
    "in a callback of the garbage collector": "gc.callbacks.append(lambda *_: wait()); gc.collect()",
    "in the middle of a file": "files.write_whole('whole', lambda file: (file.write(b'half'), wait()))",
    "while the last words take too long": "interrupts.say_last(lambda: time.sleep(60)); wait()",
    "while the last words fail": "interrupts.say_last(lambda: 1 / 0); wait()",
    "with a closed standard error": "import os, sys; sys.stderr.close(); wait()",
    "with a lock held": "lock = threading.Lock(); lock.acquire(); wait()",
    "at Python's end": "import atexit; atexit.register(wait)",
    "while signals are held back": "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}); wait()",
}


@pytest.mark.parametrize("moment", HOSTILE)
def test_an_end_at_bad_moments(tmp_path, moment):
    text = (
        "import gc, signal, threading, time\n"
        "from pathlib import Path\n"
        "from jaxdis._core import files, interrupts\n"
        "def wait():\n"
        "    Path('ready').touch()\n"
        "    time.sleep(30)\n"
        "interrupts.end_at_once()\n"
        f"{HOSTILE[moment]}\n"
    )
    program = Program(tmp_path, "-c", text)
    program.wait_for((tmp_path / "ready").exists)
    code, said = program.stop()
    assert code == 130
    if "too long" in moment or "closed" in moment:
        assert said in ("", "^C")  # the terminal's echo
    else:
        assert said.endswith("jaxdis: stopped" if "fail" in moment else "the same command again")
    assert [path.name for path in tmp_path.iterdir()] == ["ready"]


def test_an_ignored_signal_stays_ignored(tmp_path):
    text = (
        "import os, signal\n"
        "from jaxdis._core import interrupts\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "interrupts.end_at_once()\n"
        "os.kill(os.getpid(), signal.SIGHUP)\n"
        "print('went on')\n"
    )
    command = [sys.executable, "-c", text]
    assert subprocess.run(command, capture_output=True, timeout=60).stdout == b"went on\n"


SESSION = """
import signal, sys
import numpy as np
import jaxdis

values = np.random.default_rng(0).integers(0, 3, (200, 2))
codes = values @ [[1.0, 2.0, 0.5], [0.3, -1.0, 1.0]]
signal.signal(signal.SIGALRM, signal.default_int_handler)
interrupted = 0
for seconds in (1.0, 1.5, 2.0):  # while the first program is compiled, or traced
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        jaxdis.evaluate(codes, values, ("dci_forest", "mig"))
    except KeyboardInterrupt:
        interrupted += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
print(interrupted, jaxdis.evaluate(codes, values, ("dci_forest", "mig")).to_dict())
"""


def test_a_session_goes_on_after_an_interrupt(tmp_path):
    sessions = [SESSION, SESSION.replace("(1.0, 1.5, 2.0)", "()")]
    known = os.environ | {"PYTHONPATH": os.getcwd(), "JAXDIS_CACHE": str(tmp_path)}
    interrupted, whole = (
        subprocess.check_output([sys.executable, "-c", text], text=True, env=known).split(" ", 1) for text in sessions
    )
    assert int(interrupted[0]) >= 1
    assert interrupted[1] == whole[1]


def table(**columns) -> Scores:
    return Scores({name: np.asarray(column, np.float32) for name, column in columns.items()}, {})


def test_what_has_arrived_of_two_chunks_is_whole_rows():
    first, second, third = table(mig=[1, 2], sap=[3, 4]), table(mcc=[5, 6]), table(mig=[7], sap=[8])
    assert arrivals.joined([first]).to_dict() == {"mig": [1, 2], "sap": [3, 4]}
    assert arrivals.joined([first, second]).to_dict() == {"mig": [1, 2], "sap": [3, 4], "mcc": [5, 6]}
    assert arrivals.joined([first, second, third]).to_dict() == {"mig": [1, 2], "sap": [3, 4], "mcc": [5, 6]}
    assert arrivals.joined([first, second, third, table(mcc=[9])])["sap"].tolist() == [3, 4, 8]
    assert arrivals.joined([table(mig=1), table(mcc=2)]).to_dict() == {"mig": 1, "mcc": 2}


def test_the_message_looks_at_what_is_there(tmp_path):
    class Command:
        csv, out = tmp_path / "scores.csv", None

    assert outputs.kept(Command, began=time.time() - 60) == "stopped; nothing was written: run the same command again"
    Command.csv.touch()
    assert str(Command.csv) in outputs.kept(Command, began=time.time() - 60)
    assert "nothing was written" in outputs.kept(Command, began=time.time() + 60)  # it was there before
    assert outputs.kept_cells(tmp_path) == "stopped; no cell was finished: run the same command again"
    (tmp_path / "score" / "ab").mkdir(parents=True)
    (tmp_path / "score" / "ab" / "abcd.json").touch()
    assert "keeps all finished cells" in outputs.kept_cells(tmp_path)
