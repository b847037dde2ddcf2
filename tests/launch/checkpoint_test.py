"""Runs that are stopped, killed or damaged, and go on: on the same mesh with the same bits, on any other up to rounding."""

import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest

import launch

MODEL = """\
name: run
seed: 3
device: cpu
model:
  inputs: {{x: {{shape: [24]}}}}
  layers:
    - Dense: {{name: up, units: 64, activation: relu}}
    - Dropout: {{name: dropout, rate: 0.25}}
    - Dense: {{name: down, units: 8}}
distribution:
  {distribution}
compile:
  optimizer: {{Adam: {{learning_rate: {{ExponentialDecay: {{initial_learning_rate: 0.01, decay_steps: 10, decay_rate: 0.9}}}}, use_ema: true}}}}
  loss: {{SparseCategoricalCrossentropy: {{from_logits: true}}}}
  metrics: [accuracy]
data:
  train: {{random: {{samples: 200}}}}
  validation: {{random: {{samples: 50}}}}
fit: {{epochs: {epochs}, batch_size: 16}}
{more}
"""
STEPS_PER_EPOCH = 13
ALONE = "DataParallel: {}"
MESHES = {  # ranks, distribution
    "one device": (1, ALONE),
    "data": (2, ALONE),
    "model": (2, "ModelParallel: {mesh: {shape: [2], axis_names: [model]}, batch_dim_name: null, "
                 "layout_map: {up/kernel: [null, model], up/bias: [model], down/kernel: [model, null]}}"),
    "fsdp": (4, "ModelParallel: {mesh: {shape: [4], axis_names: [batch]}, layout_map: {.*/kernel: [batch, null]}}"),
    "both": (4, "ModelParallel: {mesh: {shape: [2, 2], axis_names: [batch, model]}, "
                "layout_map: {up/kernel: [null, model], down/kernel: [model, null]}}"),
    "zero": (2, "{DataParallel: {}, zero_stage: 1}"),
}
DONE, CHECKPOINT, REQUEUE = 0, 4, 75


def tensors_of(file):
    """The tensors of a safetensors file as lists of numbers, by the format's definition alone."""
    data = file.read_bytes()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    codes = {"F32": "f", "F64": "d", "I32": "i", "I64": "q"}
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        code = codes[entry["dtype"]]
        tensors[name] = struct.unpack(f"<{(end - begin) // struct.calcsize(code)}{code}", data[begin:end])
    return tensors


class Checkpoints(launch.Case):
    def config(self, mesh="data", epochs=4, more="", name="config.yaml"):
        ranks, distribution = MESHES[mesh]
        self.write(MODEL.format(distribution=distribution.replace("\n", "\n  "), epochs=epochs, more=more), name)
        return ranks

    run_name = "run"

    @property
    def run_folder(self):
        return self.folder / "runs" / self.run_name

    def checkpoints(self):
        """Finished ones, oldest first."""
        return sorted(p.parent for p in self.run_folder.glob("checkpoints/step_*/DONE") if p.parent.suffix == "")

    def result(self):
        """What a run leaves: losses by step, logs by epoch, the bytes of its weights."""
        steps = [(e["step"], e["loss"], e.get("grad_norm"), e["learning_rate"]) for e in self.events(self.run_name, "step")]
        logs = [(e["epoch"], e["logs"]) for e in self.events(self.run_name, "epoch")]
        return steps, logs, (self.run_folder / "final.safetensors").read_bytes()

    def undisturbed(self, **config):
        ranks = self.config(**config)
        self.run_ok(ranks, "config.yaml", "--resume", "never")
        result = self.result()
        shutil.rmtree(self.run_folder)
        return result

    def interrupt(self, ranks, after, *words):
        """A run that is asked to end after some more steps, or has ended by itself before."""
        metrics = self.run_folder / "metrics.jsonl"

        def steps():
            return metrics.read_text().count('"event":"step"') if metrics.exists() else 0

        wanted = steps() + after
        job = launch.Job(ranks, ["train", "config.yaml", *words], folder=self.folder)
        while job.process.poll() is None and steps() < wanted:
            time.sleep(0.002)
        if job.process.poll() is None:
            job.process.send_signal(signal.SIGUSR1)
        return job.wait()

    def test_an_interrupted_run_goes_on_with_the_same_bits(self):
        for mesh in ("data", "both"):
            epochs = 60  # long enough to be in time
            expected = self.undisturbed(mesh=mesh, epochs=epochs)
            ranks = self.config(mesh, epochs)
            for after in (5, 30):  # in the midst of an epoch, twice in a row
                result = self.interrupt(ranks, after)
                self.assertEqual(result.code, REQUEUE, str(result))
                self.assertFalse((self.run_folder / "final.safetensors").exists())
                self.assertEqual(len(self.checkpoints()), after // 20 + 1)  # it keeps some
            result = self.run_ok(ranks, "config.yaml")
            self.assertIn("resumes after step ", result.stderr)
            self.assertEqual(self.result(), expected, mesh)
            self.assertFalse((self.run_folder / "checkpoints").exists(), "kept though no checkpoint: asks for it")

    def test_a_run_goes_on_on_any_other_mesh(self):
        steps, logs, _ = self.undisturbed(mesh="one device")
        final = {}
        pairs = [("one device", "both"), ("data", "model"), ("model", "fsdp"), ("fsdp", "one device"),
                 ("both", "zero"), ("zero", "data"), ("both", "model")]
        for before, after in pairs:
            with self.subTest(before=before, after=after):
                shutil.rmtree(self.run_folder, ignore_errors=True)
                more = "checkpoint: {every_steps: 20, keep: 9}"
                self.run_ok(self.config(before, more=more), "config.yaml", "--set", "fit.epochs=2")
                for folder in self.checkpoints()[1:]:
                    shutil.rmtree(folder)  # go on inside an epoch
                result = self.run_ok(self.config(after, more=more), "config.yaml")
                self.assertIn("resumes after step 20,", result.stderr)
                own_steps, own_logs, weights = self.result()
                for own, one in zip(own_steps, steps, strict=True):
                    self.assertAlmostEqual(own[1], one[1], delta=2e-5 * abs(one[1]), msg=f"step {one[0]}")
                for own, one in zip(own_logs, logs, strict=True):
                    self.assertEqual(own[1].keys(), one[1].keys())
                    for key, value in one[1].items():
                        self.assertAlmostEqual(own[1][key], value, delta=1e-4 * abs(value), msg=f"{key} of {one[0]}")
                final[after] = weights

    def test_a_job_killed_at_any_point_loses_nothing(self):
        kills, dice = int(os.environ.get("TESSERA_KILLS", "30")), random.Random(5)
        more = "checkpoint: {every_steps: 12, keep: 2, mb_per_s: 0.4}"  # a save takes some tenths of a second
        epochs = 300
        expected = self.undisturbed(mesh="data", epochs=epochs)
        ranks = self.config("data", epochs, more)
        ended = 0
        for kill in range(kills):
            job = launch.Job(ranks, ["train", "config.yaml"], folder=self.folder)
            if kill % 2:  # while a checkpoint is being written, named or marked
                deadline = time.monotonic() + 20
                while (job.process.poll() is None and time.monotonic() < deadline
                       and not list(self.run_folder.glob("checkpoints/*.partial"))):
                    time.sleep(0.001)
                time.sleep(dice.random() * 0.3)
            else:
                time.sleep(0.2 + dice.random() * 1.2)
            for pid in [*job.rank_pids(), job.process.pid]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            ended += job.wait().code == DONE
            for folder in self.run_folder.glob("checkpoints/step_*"):
                whole = (folder / "DONE").exists()
                self.assertTrue(not whole or (folder / "manifest.json").exists())
        self.assertLess(ended, kills // 3, "most runs were to be killed")
        self.run_ok(ranks, "config.yaml", limit=120)
        self.assertEqual(self.result(), expected)
        self.assertEqual(list(self.run_folder.glob("checkpoints/*.partial")), [])
        self.assertLessEqual(len(self.checkpoints()), 2)

    def some_checkpoints(self, mesh="data"):
        ranks = self.config(mesh, more="checkpoint: {every_steps: 10, keep: 3}")
        self.run_ok(ranks, "config.yaml")
        found = self.checkpoints()
        self.assertEqual([p.name for p in found], ["step_000000040", "step_000000050", "step_000000052"])
        return ranks, found

    def test_damaged_ones_are_named_and_skipped(self):
        ranks, found = self.some_checkpoints()
        expected = self.result()

        def flip(file, at):
            data = bytearray(file.read_bytes())
            data[at] ^= 4
            file.write_bytes(data)

        flip(found[2] / "model-00001-of-00001.safetensors", -5)
        optimizer = found[1] / "optimizer-00001-of-00001.safetensors"
        os.truncate(optimizer, optimizer.stat().st_size - 4)
        result = self.run_ok(ranks, "config.yaml")
        self.assertIn("step_000000052: tensor '", result.stderr)
        self.assertIn("is damaged: its checksum is", result.stderr)
        self.assertRegex(result.stderr, "step_000000050/optimizer-00001-of-00001.safetensors")
        self.assertIn("resumes after step 40,", result.stderr)
        self.assertEqual(self.result(), expected)
        self.assertIn("step_000000052.aside: a checkpoint of a later step than this run goes on from", result.stderr)
        self.assertEqual([p.name for p in self.checkpoints()], ["step_000000040", "step_000000050", "step_000000052"])
        for folder in self.checkpoints():
            flip(folder / "manifest.json", 40)
        result = launch.run(ranks, "config.yaml", folder=self.folder)
        self.assertEqual((result.code, len(result.errors)), (CHECKPOINT, 1), str(result))
        self.assertIn("no checkpoint in runs/run/checkpoints is whole", result.errors[0])
        self.run_ok(ranks, "config.yaml", "--resume", "never")
        self.assertEqual(self.result(), expected)

    def test_what_goes_on_from_an_older_step_keeps_its_own_saves(self):
        ranks, found = self.some_checkpoints()
        expected = self.undisturbed_again(ranks, 6)
        more = ("--set", "fit.epochs=6", "--set", "checkpoint.keep=1")
        result = self.run_ok(ranks, "config.yaml", "--resume", str(found[0]), *more)
        self.assertIn("resumes after step 40,", result.stderr)
        self.assertEqual([p.name for p in self.checkpoints()], ["step_000000078"])
        self.assertEqual(sorted(p.name for p in self.run_folder.glob("checkpoints/*.aside")),
                         ["step_000000050.aside", "step_000000052.aside"])
        self.assertEqual(self.result(), expected)
        self.assertIn("resumes after step 78,", self.run_ok(ranks, "config.yaml", *more).stderr)
        # Of another run's folder the weights are taken, not its events.
        other = ("--set", "name=other", "--resume", str(self.checkpoints()[0]), "--set", "fit.epochs=7")
        self.run_ok(ranks, "config.yaml", *other)
        self.assertEqual([e["step"] for e in self.events("other", "step")], list(range(79, 92)))

    def undisturbed_again(self, ranks, epochs):
        """The result of more epochs, in another folder."""
        self.run_ok(ranks, "config.yaml", "--set", "name=long", "--set", f"fit.epochs={epochs}")
        folder, self.run_name = self.run_name, "long"
        result, self.run_name = self.result(), folder
        return result

    def test_a_finished_run_has_nothing_left_to_do_and_more_epochs_go_on(self):
        expected = self.undisturbed(mesh="data", epochs=6)
        ranks, _ = self.some_checkpoints()
        before = self.result()
        self.run_ok(ranks, "config.yaml")
        self.assertEqual(self.result(), before)
        self.run_ok(ranks, "config.yaml", "--set", "fit.epochs=6")
        self.assertEqual(self.result(), expected)

    def test_another_model_is_refused_with_the_differences_or_gives_what_fits(self):
        ranks, found = self.some_checkpoints()
        file = self.folder / "config.yaml"
        file.write_text(file.read_text().replace("units: 8", "units: 9").replace("seed: 3", "seed: 4"))
        result = launch.run(ranks, "config.yaml", folder=self.folder)
        self.assertEqual((result.code, len(result.errors)), (CHECKPOINT, 1), str(result))
        for part in ("'down/kernel' is F32 (64, 8) in the checkpoint and F32 (64, 9) here", "seed was 3 and is 4",
                     "resume: {partial: true}", "--resume never"):
            self.assertIn(part, result.errors[0])
        result = self.run_ok(ranks, "config.yaml", "--resume", found[0], "--set", "resume.partial=true")
        self.assertIn("training starts anew, with 2 variables of", result.stderr)
        self.assertEqual(self.events("run", "step")[0]["step"], 1)

    def test_a_save_that_fails_is_a_loud_warning(self):
        # Weights fit below the limit of a file's size, the optimizer's state does not.
        limited = ["bash", "-c", 'ulimit -f 64; exec "$@"', "bash"]
        self.config("one device", more="checkpoint: {every_steps: 10}", epochs=2)
        file = self.folder / "config.yaml"
        file.write_text(file.read_text().replace("units: 64", "units: 256"))
        result = launch.run(0, "config.yaml", folder=self.folder, within=limited)
        self.assertIn("the checkpoint of step 10 was NOT saved: ", result.stderr)
        self.assertIn("File too large", result.stderr)
        self.assertEqual(len(self.events("run", "step")), 2 * STEPS_PER_EPOCH, "training went on")
        self.assertEqual(list(self.run_folder.glob("checkpoints/*")), [])
        self.assertEqual((result.code, len(result.errors)), (CHECKPOINT, 1), "the last one must be saved")

    def test_files_are_as_hugging_face_lays_them_out(self):
        _, found = self.some_checkpoints("fsdp")
        for folder in found:
            index = json.loads((folder / "model.safetensors.index.json").read_text())
            tensors = tensors_of(folder / "model-00001-of-00001.safetensors")
            self.assertEqual(index["weight_map"], dict.fromkeys(tensors, "model-00001-of-00001.safetensors"))
            self.assertEqual(index["metadata"]["total_size"], 4 * sum(map(len, tensors.values())))
        final = tensors_of(self.run_folder / "final.safetensors")
        averages = tensors_of(found[-1] / "optimizer-00001-of-00001.safetensors")
        self.assertEqual(final["up/kernel"], averages[next(k for k in averages if k.endswith("up/kernel/average"))])

    def test_the_safetensors_library_reads_them(self):
        packages = launch.ROOT / "build" / "python"
        if not (packages / "safetensors").exists():
            pip = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(packages), "numpy",
                                  "safetensors"], capture_output=True, text=True, check=False)
            if pip.returncode != 0:
                self.skipTest(f"numpy and safetensors cannot be installed: {pip.stderr}")
        _, found = self.some_checkpoints()
        code = ("import sys, safetensors.numpy as s\n"
                "for f in sys.argv[1:]: print(sum(a.size for a in s.load_file(f).values()))")
        files = sorted(map(str, found[-1].glob("*.safetensors")))
        read = subprocess.run([sys.executable, "-c", code, *files], check=True, capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(packages)})
        self.assertEqual([int(line) for line in read.stdout.split()],
                         [sum(map(len, tensors_of(pathlib.Path(f)).values())) for f in files])

    def test_memory_stays_within_the_plan_and_64_mb_a_rank(self):
        wide = """
name: run
model: {inputs: {x: {shape: [4096]}}, layers: [{Dense: {units: 4096}}]}
distribution: {ModelParallel: {mesh: {shape: [2], axis_names: [batch]}, layout_map: {dense/kernel: [batch, null]}}}
compile: {optimizer: adam, loss: mse}
data: {train: {random: {samples: 64}}}
fit: {epochs: 2, batch_size: 16}
checkpoint: {every_steps: 3}
"""  # 192 MiB of state
        self.write(wide)
        for words in ((), ("--set", "fit.epochs=3")):
            self.run_ok(2, "config.yaml", *words)
            end = self.events("run", "end")[-1]
            self.assertGreater(end["pools"]["checkpoint snapshot"], 96e6)
            read_of_the_other = end["pools"]["communication region"]  # pages of its window count as resident here too
            self.assertLessEqual(end["peak_rss_bytes"],
                                 end["baseline_bytes"] + end["planned_bytes"] + read_of_the_other + 64e6)
            saved = self.events("run", "checkpoint")[-1]
            self.assertGreater(saved["bytes"], 192e6)

    def test_weights_of_a_checkpoint_are_evaluated(self):
        ranks, found = self.some_checkpoints()
        result = self.run_ok(ranks, "evaluate", "config.yaml", "--weights", found[-1], "--json")
        self.assertGreater(json.loads(result.stdout)["loss"], 0)


if __name__ == "__main__":
    unittest.main()
