"""A program whose CUDA backend cannot be opened trains on the CPU, and says in one sentence why it has no GPU when asked."""

import shutil
import unittest

import launch

MODEL = """
version: 1
name: tiny
model:
  inputs: {x: {shape: [4]}}
  layers:
    - Dense: {name: dense, units: 2}
compile: {optimizer: sgd, loss: mse}
data:
  train: {random: {samples: 16}}
fit: {epochs: 1, batch_size: 8}
"""


class Hidden(launch.Case):
    def setUp(self):
        super().setUp()
        self.program = shutil.copy(launch.TRAINER, self.folder)  # without the shared objects that lie beside it
        self.write(MODEL)

    def run_copy(self, *words):
        trainer, launch.TRAINER = launch.TRAINER, self.program
        try:
            return launch.run(0, "train", "config.yaml", *words, folder=self.folder)
        finally:
            launch.TRAINER = trainer

    def test_auto_takes_the_cpu(self):
        result = self.run_copy()
        self.assertEqual((result.code, result.errors), (0, []), str(result))

    def test_cuda_is_one_sentence(self):
        result = self.run_copy("--set", "device=cuda")
        self.assertEqual((len(result.errors), result.code), (1, 2), str(result))
        self.assertIn("has no GPU: ", result.errors[0])
        self.assertTrue(result.errors[0].endswith("use device: cpu"), result.errors[0])


if __name__ == "__main__":
    unittest.main()
