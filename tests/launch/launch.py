"""Starts the trainer as its users do: a process alone, or the ranks of an mpirun.

TESSERA_TRAINER names the executable (default: the one of build/release), TESSERA_MPIRUN another mpirun.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "configs"
TRAINER = os.environ.get("TESSERA_TRAINER", str(ROOT / "build/release/bin/trainer"))
MPIRUN = os.environ.get("TESSERA_MPIRUN", "mpirun")
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
}


class Run:
    """A process that has ended."""

    def __init__(self, words, code, stdout, stderr, seconds):
        self.words, self.code, self.stdout, self.stderr, self.seconds = words, code, stdout, stderr, seconds

    def __str__(self):
        return f"{' '.join(self.words)}\nexit {self.code} after {self.seconds:.1f} s\n{self.stdout}{self.stderr}"

    @property
    def errors(self):
        """What ranks said: each `error: ...` with the lines that belong to it, without mpirun's own words."""
        spoken = re.findall(r"^error: (.*?)(?=^error: |^-----|\Z)", self.stderr, re.DOTALL | re.MULTILINE)
        return [error.strip() for error in spoken]

    def json(self):
        return json.loads(self.stdout)


class Job:
    """A trainer that runs. `ranks` 0: without mpirun. `before`: words in front of it all, `within`: of each rank."""

    def __init__(self, ranks, words, folder=None, env=None, before=(), within=()):
        launch = [MPIRUN, "-np", str(ranks)] if ranks else []
        self.words = [*before, *launch, *within, TRAINER, *map(str, words)]
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMIX_", "PMI_", "SLURM_"))}
        self.start = time.monotonic()
        self.process = subprocess.Popen(self.words, cwd=folder, env={**inherited, **ENVIRONMENT, **(env or {})},
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, errors="replace", start_new_session=True)

    def wait(self, limit=60):
        """The ended Run; a job that takes more than `limit` seconds is killed, with its ranks, and fails the test."""
        try:
            stdout, stderr = self.process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            for pid in [*self.rank_pids(), self.process.pid]:
                os.kill(pid, signal.SIGKILL)
            stdout, stderr = self.process.communicate()
            raise AssertionError(f"hung: {' '.join(self.words)} took more than {limit} s\n{stdout}{stderr}") from None
        return Run(self.words, self.process.returncode, stdout, stderr, time.monotonic() - self.start)

    def rank_pids(self):
        """Process ids of the ranks, in their order."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or self.process.pid not in ancestors(int(entry.name)):
                continue
            try:
                variables = dict(v.split("=", 1) for v in (entry / "environ").read_text().split("\0") if "=" in v)
                if os.path.realpath(TRAINER) == os.path.realpath(entry / "exe"):
                    found[int(variables["OMPI_COMM_WORLD_RANK"])] = int(entry.name)
            except (OSError, KeyError):
                pass
        return [found[rank] for rank in sorted(found)]


def ancestors(pid):
    while pid > 1:
        try:
            pid = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return
        yield pid


def run(ranks, *words, limit=60, **options):
    """Starts the trainer with these words and waits for it; the options are Job's."""
    return Job(ranks, words, **options).wait(limit)


class Case(unittest.TestCase):
    """A test with a folder of its own."""

    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tessera_launch_"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def write(self, text, name="config.yaml"):
        file = self.folder / name
        file.write_text(text)
        return file

    def run_ok(self, ranks, *words, **options):
        result = run(ranks, *words, folder=self.folder, **options)
        self.assertEqual(result.code, 0, str(result))
        return result

    def wait_for_steps(self, job, name, steps=5):
        """Until a running job has made some steps of runs/NAME."""
        metrics = self.folder / "runs" / name / "metrics.jsonl"
        deadline = time.monotonic() + 30
        while not metrics.exists() or metrics.read_text().count('"step"') < steps:
            self.assertIsNone(job.process.poll(), "the job ended by itself")
            self.assertLess(time.monotonic(), deadline, "the job did not start")
            time.sleep(0.05)

    def events(self, name, event):
        """The events of one kind in runs/NAME/metrics.jsonl."""
        lines = (self.folder / "runs" / name / "metrics.jsonl").read_text().splitlines()
        return [e for e in map(json.loads, lines) if e["event"] == event]
