"""scripts/slurm under a real Slurm of this machine: time limits, requeue, arrays, and launches that go wrong."""

import json
import os
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "launch"))

import cluster
import isolate
import launch

CPU, GPU = (launch.ROOT / "scripts/slurm" / f"{kind}.sbatch" for kind in ("cpu", "gpu"))
CONFIG = """\
name: mlp
seed: 1
model:
  inputs: {x: {shape: [64]}}
  layers: [{Dense: {units: 128, activation: relu}}, {Dropout: {rate: 0.1}}, {Dense: {units: 64}}]
compile: {optimizer: adam, loss: mse}
data:
  train: {random: {samples: 4096}}
fit: {epochs: 60, batch_size: 64}
"""
STEPS = 60 * 64
RANKS = ("--ntasks=2", "--cpus-per-task=1")
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")


class Slurm(launch.Case):
    @classmethod
    def setUpClass(cls):
        cls.slurm = cluster.Cluster(cpus=4)
        cls.slurm.__enter__()
        cls.addClassCleanup(cls.slurm.stop)

    def setUp(self):
        super().setUp()
        self.write(CONFIG)
        self.addCleanup(self.slurm.cancel_all)

    def submit(self, *words, launcher="", **env):
        variables = {**launch.ENVIRONMENT, "TRAINER": launch.TRAINER, "LAUNCHER": launcher, **env}
        return self.slurm.submit(*words, folder=self.folder, env=variables)

    def output(self, job):
        return (self.folder / f"slurm-{job}.out").read_text()

    def steps(self, name):
        metrics = self.folder / "runs" / name / "metrics.jsonl"
        return metrics.read_text().count('"event":"step"') if metrics.exists() else 0

    def ranks(self):
        """Ids of the trainer's processes in Slurm's jobs."""
        def runs_trainer(pid):
            try:
                return os.path.samefile(f"/proc/{pid}/exe", launch.TRAINER)
            except OSError:
                return False
        return [pid for pid in self.slurm.processes() if runs_trainer(pid)]

    def wait_for_steps(self, name="mlp"):
        self.slurm.until(lambda: self.steps(name) >= 5, 60, f"step of {name}")

    def hold_until_told(self, ranks, tell=lambda: None):
        """Holds two ranks until SIGUSR1 waits for both, so that it comes amid training: Slurm looks at time limits only
        every half minute."""
        self.assertEqual(len(ranks), 2)
        for rank in ranks:
            os.kill(rank, signal.SIGSTOP)
        tell()
        self.slurm.until(lambda: all(map(has_pending_sigusr1, ranks)), 60, "SIGUSR1 from Slurm")
        for rank in ranks:
            os.kill(rank, signal.SIGCONT)

    def wait_for_end(self, job, limit=60):
        """The job's fields."""
        self.slurm.until(lambda: self.slurm.show(job)["JobState"] in ENDED, limit, f"end of job {job}")
        return self.slurm.show(job)

    def undisturbed(self, name="mlp", *words):
        """The final weights of the same run without Slurm."""
        self.run_ok(2, "train", "config.yaml", "--set", "output_dir=undisturbed", "--set", f"name={name}", *words)
        return (self.folder / "undisturbed" / name / "final.safetensors").read_bytes()

    def check_resumed(self, name, undisturbed):
        self.assertEqual((self.folder / "runs" / name / "final.safetensors").read_bytes(), undisturbed)
        steps = [event["step"] for event in self.events(name, "step")]
        self.assertEqual(steps, list(range(1, STEPS + 1)))

    def test_a_job_at_its_time_limit_is_queued_again_and_ends_with_the_same_bits(self):
        undisturbed = self.undisturbed()
        job = self.submit("--time=1", "--signal=B:USR1@60", *RANKS, CPU, "config.yaml")
        self.wait_for_steps()
        self.hold_until_told(self.ranks())
        self.slurm.until(lambda: int(self.slurm.show(job)["Restarts"]) >= 1, 30, "requeue")
        self.assertLess(self.steps("mlp"), STEPS)
        end = self.wait_for_end(job, 120)
        self.assertEqual((end["JobState"], end["ExitCode"]), ("COMPLETED", "0:0"), self.output(job))
        self.check_resumed("mlp", undisturbed)

    def test_an_array_of_two_seeds_under_mpirun_of_which_one_is_told_to_save(self):
        seeds = (1, 2)
        undisturbed = [self.undisturbed(f"seed_{seed}", "--set", f"seed={seed}") for seed in seeds]
        self.assertNotEqual(*undisturbed)
        job = self.submit("--array=1-2%1", *RANKS, CPU, "config.yaml", "--set", "seed=%a", "--set", "name=seed_%a",
                          launcher="mpirun")
        self.wait_for_steps("seed_2")
        self.hold_until_told(self.ranks(), lambda: self.slurm.call("scancel", "--signal=USR1", "--batch", f"{job}_2"))
        for seed in seeds:
            end = self.wait_for_end(f"{job}_{seed}", 90)
            said = self.output(f"{job}_{seed}")
            self.assertEqual((end["JobState"], end["Restarts"]), ("COMPLETED", str(seed - 1)), said)
            self.check_resumed(f"seed_{seed}", undisturbed[seed - 1])

    def test_a_job_that_loses_a_rank_fails_and_is_not_queued_again(self):
        job = self.submit(*RANKS, CPU, "config.yaml", "--set", "fit.epochs=100000")
        self.wait_for_steps()
        os.kill(self.ranks()[1], signal.SIGKILL)
        end = self.wait_for_end(job, 30)
        self.assertEqual((end["JobState"], end["Restarts"]), ("FAILED", "0"), self.output(job))
        self.assertRegex(self.output(job), r"rank \d on \S+ has (ended|failed)")
        self.assertEqual(self.ranks(), [])

    def test_a_cancelled_job_stays_cancelled(self):
        job = self.submit(*RANKS, CPU, "config.yaml", "--set", "fit.epochs=100000")
        self.wait_for_steps()
        self.slurm.call("scancel", job)
        self.assertEqual(self.wait_for_end(job, 30)["JobState"], "CANCELLED")
        self.slurm.until(lambda: not self.ranks(), 20, "end of the ranks")

    def test_srun_without_pmix_is_an_error_that_names_the_fix_once(self):
        said = self.slurm.call("srun", "--mpi=none", "--ntasks=2", launch.TRAINER, "train", "config.yaml",
                               folder=self.folder, check=False)
        self.assertEqual(said.count("error: SLURM_STEP_NUM_TASKS is 2, but MPI sees 1 rank: "), 1, said)
        self.assertIn("srun --mpi=pmix", said)
        self.assertIn("Exited with exit code 2", said)
        self.assertNotIn("MPI_Init", said)

    def test_a_batch_script_may_plan_alone_but_not_train(self):
        for verb, code in (("validate", "0:0"), ("train", "2:0")):
            job = self.submit("--ntasks=3", f"--wrap={launch.TRAINER} {verb} config.yaml")
            self.assertEqual(self.wait_for_end(job)["ExitCode"], code, self.output(job))
        self.assertIn("error: SLURM_NTASKS is 3, but MPI sees 1 rank", self.output(job))

    def test_the_scripts_differ_in_their_resources_alone(self):
        cpu, gpu = (file.read_text().partition("# Slurm tells")[2] for file in (CPU, GPU))
        self.assertTrue(cpu)
        self.assertEqual(cpu, gpu)

    def test_the_script_for_gpus_starts_a_rank_for_each(self):
        for launcher in ("srun", "mpirun"):
            job = self.submit("--ntasks-per-node=2", "--gpus-per-node=2", "--cpus-per-task=1", GPU, "config.yaml",
                              "--set", "fit.epochs=1", "--set", f"name={launcher}", launcher=launcher)
            self.assertEqual(self.wait_for_end(job)["JobState"], "COMPLETED", self.output(job))
            plan = json.loads((self.folder / "runs" / launcher / "plan.json").read_text())
            self.assertEqual(plan["mesh"]["ranks"], 2)


def has_pending_sigusr1(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("ShdPnd:") and int(line.split()[1], 16) >> (signal.SIGUSR1 - 1) & 1:
            return True
    return False


if __name__ == "__main__":
    missing = cluster.missing_daemons()
    if missing:
        isolate.skip(f"{', '.join(missing)} missing: scripts/install_packages.sh packages_cluster.txt")
    isolate.isolate()
    unittest.main()
