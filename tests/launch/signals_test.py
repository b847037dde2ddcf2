"""Jobs that are killed or asked to end."""

import os
import shutil
import signal
import time
import unittest

import launch

CONFIG = """\
name: long
model:
  inputs: {x: {shape: [256]}}
  layers: [{Dense: {units: 256}}]
compile: {optimizer: adam, loss: mse}
data:
  train: {random: {samples: 4096}}
fit: {epochs: 100000, batch_size: 64}
"""


class Signals(launch.Case):
    def start(self, ranks, *words):
        """A job that has made some steps."""
        self.write(CONFIG)
        shutil.rmtree(self.folder / "runs", ignore_errors=True)
        job = launch.Job(ranks, ["train", "config.yaml", *words], folder=self.folder)
        self.wait_for_steps(job, "long")
        return job

    def test_a_killed_rank_ends_the_job_within_ten_seconds_with_a_sentence(self):
        for victim in (0, 2):
            with self.subTest(victim=victim):
                job = self.start(4)
                pids = job.rank_pids()
                self.assertEqual(len(pids), 4)
                start = time.monotonic()
                os.kill(pids[victim], signal.SIGKILL)
                result = job.wait(20)
                self.assertLess(time.monotonic() - start, 10)
                self.assertNotEqual(result.code, 0)
                self.assertRegex(result.stderr, rf"rank {victim} .*(signal 9|ended|is gone)", str(result))
                while any(os.path.exists(f"/proc/{pid}") for pid in pids):
                    self.assertLess(time.monotonic() - start, 10, "ranks were left behind")
                    time.sleep(0.1)

    def test_a_rank_that_stands_still_is_named_after_the_time_limit(self):
        job = self.start(4, "--timeout", "3")
        pids = job.rank_pids()
        os.kill(pids[2], signal.SIGSTOP)
        try:
            result = job.wait(30)
        finally:
            if os.path.exists(f"/proc/{pids[2]}"):
                os.kill(pids[2], signal.SIGCONT)
        self.assertEqual(result.code, 7, str(result))
        self.assertLess(result.seconds, 20)
        self.assertRegex(result.stderr, r"step \d+\) has waited 3(\.3)? s for rank 2 \(", str(result))

    def test_a_slow_rank_is_waited_for(self):
        job = self.start(2, "--timeout", "10")
        pids = job.rank_pids()
        for _ in range(5):
            os.kill(pids[1], signal.SIGSTOP)
            time.sleep(0.5)
            os.kill(pids[1], signal.SIGCONT)
            time.sleep(0.1)
        job.process.send_signal(signal.SIGUSR1)
        self.assertEqual(job.wait(30).code, 75)

    def test_sigusr1_saves_and_asks_to_be_queued_again(self):
        for ranks in (0, 0, 0, 0, 0, 0, 4):  # in the midst of whatever it computes
            with self.subTest(ranks=ranks):
                job = self.start(ranks)
                job.process.send_signal(signal.SIGUSR1)
                result = job.wait(20)
                self.assertEqual((result.code, result.errors), (75, []), str(result))
                end, = self.events("long", "end")
                self.assertIs(end["interrupted"], True)
                self.assertEqual(end["steps"], self.events("long", "step")[-1]["step"])
                saved, = (self.folder / "runs/long/checkpoints").iterdir()
                self.assertEqual(saved.name, f"step_{end['steps']:09}")
                self.assertTrue((saved / "DONE").exists())
                self.assertFalse((self.folder / "runs/long/final.safetensors").exists())

    def test_a_second_run_leaves_the_folder_of_the_first_alone(self):
        job = self.start(0)
        second = launch.run(2, "train", "config.yaml", folder=self.folder)
        self.assertEqual((second.code, len(second.errors)), (3, 1), str(second))
        self.assertIn("another run writes to runs/long", second.errors[0])
        job.process.send_signal(signal.SIGUSR1)
        self.assertEqual(job.wait(20).code, 75)
        steps = [event["step"] for event in self.events("long", "step")]
        self.assertEqual(steps, list(range(1, len(steps) + 1)))

    def test_the_weights_that_a_run_starts_from_outlive_it(self):
        self.write(CONFIG)
        self.run_ok(0, "train", "config.yaml", "--set", "fit.epochs=1")
        weights, metrics = (self.folder / "runs/long" / name for name in ("final.safetensors", "metrics.jsonl"))
        before = weights.read_bytes()
        metrics.unlink()
        self.write(CONFIG.replace("model:", "model:\n  load_weights: runs/long/final.safetensors"), "again.yaml")
        job = launch.Job(0, ["train", "again.yaml"], folder=self.folder)
        while not metrics.exists():
            self.assertIsNone(job.process.poll(), "the job ended by itself")
            time.sleep(0.05)
        job.process.kill()
        job.wait(20)
        self.assertEqual(weights.read_bytes(), before)

    def test_sigint_and_sigterm_do_so_without_mpirun(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number=number):
                job = self.start(0)
                job.process.send_signal(number)
                self.assertEqual(job.wait(20).code, 75)


if __name__ == "__main__":
    unittest.main()
