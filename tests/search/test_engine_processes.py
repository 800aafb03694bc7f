"""The engine in a process with fork, torch's threads, many Python threads, and one query on all cores."""

import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

from idcwh_search import _core

pytestmark = pytest.mark.slow

PRELUDE = """
import numpy as np
from idcwh_search import _core
rng = np.random.default_rng(1)
codes = rng.integers(0, 256, (300_000, 8), dtype=np.uint8)
queries = codes[[5, 77, 299_999] * 3]
def search():
    for nq in (1, 9):
        _, ids = _core.topk(codes, 64, queries[:nq], 5, threads=4)
        assert ids[:, 0].tolist() == ([5, 77, 299_999] * 3)[:nq], ids
"""


def run(script: str, timeout: float = 300) -> str:
    """Runs the script in a new process. A process that hangs is a failure."""
    code = PRELUDE + textwrap.dedent(script)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_search_after_fork_succeeds():
    run(
        """
        import os
        search()
        for _ in range(3):
            child = os.fork()
            if child == 0:
                search()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        search()
        """
    )


def test_fork_beside_searching_threads_succeeds():
    run(
        """
        import os, threading
        stop = threading.Event()
        def busy():
            while not stop.is_set():
                search()
        threads = [threading.Thread(target=busy) for _ in range(2)]
        for thread in threads: thread.start()
        for _ in range(10):
            child = os.fork()
            if child == 0:
                search()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        stop.set()
        for thread in threads: thread.join()
        """
    )


@pytest.mark.parametrize("order", ["before", "after"])
def test_search_beside_torch_succeeds(order):
    pytest.importorskip("torch")
    torch = "import torch; torch.set_num_threads(2); (torch.rand(300, 300) @ torch.rand(300, 300)).sum().item()"
    run("\n".join([torch, "search()", torch] if order == "before" else ["search()", torch, "search()"]))


def test_search_from_many_threads_is_correct(rng, code_maker):
    codes, queries = code_maker.random(rng, 20_000, 64), code_maker.random(rng, 8, 64)
    expected = _core.topk(codes, 64, queries, 10, threads=1)
    wrong = []

    def work():
        for _ in range(20):
            distances, ids = _core.topk(codes, 64, queries, 10, threads=3)
            if not (np.array_equal(distances, expected[0]) and np.array_equal(ids, expected[1])):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_one_query_uses_several_threads():
    """The pool has workers after a single query over a large database. Linux reports the number of threads."""
    out = run(
        """
        import os
        before = len(os.listdir("/proc/self/task"))
        _core.topk(codes, 64, queries[:1], 5, threads=1)
        assert len(os.listdir("/proc/self/task")) == before
        _core.topk(codes, 64, queries[:1], 5, threads=3)
        print(len(os.listdir("/proc/self/task")) - before)
        """
    )
    assert int(out) == 2


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_long_search(threads):
    """A real SIGINT during a search of minutes raises KeyboardInterrupt, and the process can search again."""
    out = run(
        f"""
        import os, signal, threading, time
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent in the background has it ignored
        many = np.tile(queries, (40_000, 1))
        sent = []
        def interrupt():
            time.sleep(0.3)
            sent.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)
        for call in (
            lambda: _core.topk(codes, 64, many, 10, threads={threads}),
            lambda: _core.radius(codes, 64, many, 10, threads={threads}),
            lambda: _core.histogram(codes, 64, many, threads={threads}),
        ):
            thread = threading.Thread(target=interrupt)
            try:
                thread.start()
                call()
                print("not interrupted")
            except KeyboardInterrupt:
                print(time.perf_counter() - sent.pop())
            thread.join()
            search()
        """
    )
    waits = [float(line) for line in out.split()]
    assert len(waits) == 3  # about 10 ms each on an idle machine


def test_search_beside_busy_interpreter_is_not_delayed():
    """Checking for signals needs the interpreter's lock, which a busy thread releases late. Searches check rarely."""
    run(
        """
        import threading
        import idcwh_search
        stop = threading.Event()
        def spin():
            while not stop.is_set():
                sum(range(1000))
        thread = threading.Thread(target=spin)
        thread.start()
        for _ in range(3):
            _, ids = _core.topk(codes, 64, np.tile(queries, (50, 1)), 3, threads=2)
            assert ids[:, 0].tolist() == [5, 77, 299_999] * 150
        stop.set()
        thread.join()
        """
    )


def test_search_releases_the_interpreter(rng, code_maker):
    """Without forced switches, another thread runs during the search only if the search releases the GIL."""
    codes, queries = code_maker.random(rng, 200_000, 64), code_maker.random(rng, 300, 64)
    started, finished = threading.Event(), threading.Event()

    def work():
        started.set()
        _core.topk(codes, 64, queries, 10, threads=1)
        finished.set()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        threading.Thread(target=work).start()
        started.wait()
        over = finished.is_set()
        finished.wait()
    finally:
        sys.setswitchinterval(interval)
    assert not over
