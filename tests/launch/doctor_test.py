"""What `trainer doctor` finds, and the faults that it is about: copies of data that differ, values that are not finite."""

import json
import os
import pathlib
import struct
import unittest

import launch

CONFIG = """\
name: run
model:
  inputs: {x: {shape: [4]}}
  layers: [{Dense: {name: a, units: 8, activation: ACTIVATION}}, {Dense: {name: b, units: 2}}]
compile: {optimizer: sgd, loss: mse}
data: {train: {npy: {x: x.npy, y: y.npy}}}
fit: {epochs: 1, batch_size: 8}
"""
CONFIG_ERROR, DATA_ERROR, NOT_FINITE = 2, 3, 6
# Rank N runs in the folder N of the test, so that files of one relative name differ: a node each.
APART = ["bash", "-c", 'cd "$OMPI_COMM_WORLD_RANK" && exec "$@"', "bash"]


def write_npy(file, rows, columns, value=0.5):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}".ljust(117) + "\n"
    numbers = [value + 0.01 * k for k in range(rows * columns)]
    file.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
                     + struct.pack(f"<{len(numbers)}f", *numbers))


class Doctor(launch.Case):
    def config(self, activation="relu", folder=None):
        folder = folder or self.folder
        folder.mkdir(exist_ok=True)
        (folder / "config.yaml").write_text(CONFIG.replace("ACTIVATION", activation))
        write_npy(folder / "x.npy", 16, 4)
        write_npy(folder / "y.npy", 16, 2)

    def findings(self, ranks, *words, code=0, **options):
        result = launch.run(ranks, "doctor", *words, "--json", folder=self.folder, **options)
        self.assertEqual(result.code, code, str(result))
        return {f["subject"]: f for f in json.loads(result.stdout)}

    def test_a_sound_machine_is_sound_alone_and_in_a_job(self):
        self.config()
        for ranks in (0, 2):
            found = self.findings(ranks, "config.yaml")
            self.assertEqual({f["level"] for f in found.values()} - {"warning"}, {"ok"}, found)
            for subject in ("ranks", "nodes", "GPUs", "memory", "shared memory", "output", "data.train", "limits"):
                self.assertIn(subject, found)
        self.assertIn("GB/s", found["communication"]["sentence"])
        self.assertNotIn("communication", self.findings(0))
        self.assertEqual(list(self.folder.glob("**/.tessera_doctor")), [])

    def test_what_is_wrong_has_a_fix(self):
        limits = self.findings(0, before=["bash", "-c", 'ulimit -n 64; exec "$@"', "bash"])["limits"]
        self.assertEqual((limits["level"], limits["fix"][:14]), ("warning", "ulimit -n 4096"))
        self.config()
        (self.folder / "runs").write_text("a file in the way")
        output = self.findings(0, "config.yaml", code=CONFIG_ERROR)["output"]
        self.assertEqual(output["level"], "failure")
        self.assertIn("output_dir", output["fix"])
        gpus = self.findings(0, "config.yaml", "--set", "device=cuda", "--set", "output_dir=out", code=CONFIG_ERROR)["GPUs"]
        self.assertEqual(gpus["level"], "failure")

    def test_a_node_with_other_data_is_named(self):
        for rank in ("0", "1"):
            self.config(folder=self.folder / rank)
        shared = ("--set", f"output_dir={self.folder / 'out'}")
        self.run_ok(2, "train", "config.yaml", *shared, within=APART)
        write_npy(self.folder / "1/y.npy", 16, 2, value=0.6)
        for verb, words in (("train", ("--resume", "never")), ("evaluate", ("--data", "train"))):
            result = launch.run(2, verb, "config.yaml", *words, *shared, folder=self.folder, within=APART)
            self.assertEqual((result.code, len(result.errors)), (DATA_ERROR, 1), str(result))
            self.assertRegex(result.errors[0],
                             r"config.yaml:6:\d+: rank 1 on .* reads another .*y.npy than rank 0 .* differ in content")
        result = launch.run(2, "doctor", "config.yaml", folder=self.folder, within=APART)
        self.assertIn("failure  data.train: config.yaml:6:", result.stdout)
        write_npy(self.folder / "1/y.npy", 32, 2)
        result = launch.run(2, "train", "config.yaml", folder=self.folder, within=APART)
        self.assertIn("differ in size", result.errors[0])
        (self.folder / "1/y.npy").unlink()
        result = launch.run(2, "train", "config.yaml", folder=self.folder, within=APART)
        self.assertEqual((result.code, len(result.errors)), (DATA_ERROR, 1), str(result))
        self.assertRegex(result.errors[0], r"rank 1 on .* can't read what rank 0 on .* can: .*y.npy: .*No such file.* Copy it to every node")

    def test_a_node_that_does_not_share_the_output_is_named(self):
        for rank in ("0", "1"):
            self.config(folder=self.folder / rank)
        result = launch.run(2, "doctor", "config.yaml", folder=self.folder, within=APART)
        self.assertEqual(result.code, CONFIG_ERROR, str(result))
        self.assertRegex(result.stdout, r"failure  output: .*/0/runs is not the same folder for rank 1 on ")

    def test_nan_search_names_the_op_and_what_it_read(self):
        self.config("exponential")
        words = ("config.yaml", "--set", "model.layers.0.Dense.kernel_initializer={RandomNormal: {stddev: 900.0}}")
        for ranks in (0, 2):
            result = launch.run(ranks, "train", *words, folder=self.folder)
            self.assertEqual(result.code, NOT_FINITE, str(result))
            self.assertIn("--nan-search names the first value", result.errors[0])
            result = launch.run(ranks, "train", *words, "--nan-search", folder=self.folder)
            self.assertEqual(result.code, NOT_FINITE, str(result))
            self.assertRegex(result.errors[0], r"step 1: the first value that is not finite is element \d+ of '.*', by "
                                               r".*layer a \(instruction \d+\); what it read is finite")
        self.config()
        plain, searched = ((self.run_ok(2, "train", "config.yaml", "--resume", "never", *extra),
                            (self.folder / "runs/run/final.safetensors").read_bytes())[1]
                           for extra in ((), ("--nan-search",)))
        self.assertEqual(plain, searched)

    def test_steps_whose_gradients_are_not_finite_are_skipped_on_request(self):
        self.config()
        bad = self.folder / "x.npy"
        data = bytearray(bad.read_bytes())
        data[-4:] = struct.pack("<f", float("nan"))  # in the second of two batches
        bad.write_bytes(data)
        words = ("config.yaml", "--set", "fit.shuffle=false", "--set", "compile.metrics=[mse]", "--set", "fit.epochs=3", "--resume", "never")
        for ranks in (0, 2):
            result = launch.run(ranks, "train", *words, folder=self.folder)
            self.assertEqual(result.code, NOT_FINITE, str(result))
            result = self.run_ok(ranks, "train", *words, "--set", "fit.skip_non_finite=1")
            self.assertIn("step 2 has no update: its gradients are not finite (1 of at most 1 in a row)", result.stderr)
            losses = [e["loss"] for e in self.events("run", "step")]
            self.assertEqual([e == "nan" for e in losses], [False, True] * 3)
            self.assertLess(losses[4], losses[0])
            for epoch in self.events("run", "epoch"):
                self.assertIsInstance(epoch["logs"]["loss"], float)
                self.assertIsInstance(epoch["logs"]["mse"], float)
        result = launch.run(0, "train", *words, "--set", "fit.skip_non_finite=1", "--set", "fit.batch_size=16",
                            folder=self.folder)
        self.assertEqual(result.code, NOT_FINITE, str(result))
        self.assertIn("step 2: ", result.errors[0])

    def test_locale_and_clock_do_not_matter(self):
        self.config()
        self.run_ok(0, "train", "config.yaml")
        expected = (self.folder / "runs/run/final.safetensors").read_bytes()
        self.run_ok(0, "train", "config.yaml", env={"LC_ALL": "de_DE.UTF-8", "LANG": "tr_TR.UTF-8", "TZ": "Pacific/Apia"})
        self.assertEqual((self.folder / "runs/run/final.safetensors").read_bytes(), expected)
        for file in pathlib.Path(self.folder).glob("*.npy"):
            os.utime(file, (2**33, 2**33))  # far in the future
        self.run_ok(2, "train", "config.yaml")


if __name__ == "__main__":
    unittest.main()
