"""Plans for machines that are not there: one process, seconds, little memory."""

import resource
import unittest

import launch
import models

BLOCKS = """\
model:
  inputs: {x: {shape: [1024]}}
  layers:
    - Dense: {name: encoder, units: 1024}
    - Repeat:
        name: block
        times: 64
        layers:
          - LayerNormalization: {name: norm}
          - Dense: {name: up, units: 4096, activation: gelu}
          - Dense: {name: down, units: 1024}
          - Add: {name: residual, inputs: [down, input]}
    - Dense: {name: head, units: 16}
distribution:
  ModelParallel:
    mesh: {shape: [16, 32, 8], axis_names: [data, fsdp, model]}
    batch_dim_name: [data, fsdp]
    layout_map:
      block_[0-9]+/up/kernel: [fsdp, model]
      block_[0-9]+/up/bias: [model]
      block_[0-9]+/down/kernel: [model, fsdp]
compile: {optimizer: adam, loss: mse}
data:
  train: {random: {samples: 65536}}
fit: {batch_size: 8192}
"""
READ_BY_ALL = BLOCKS.replace("inputs: [down, input]", "inputs: [down, input, encoder]")
LARGE = models.one_wide_kernel(inputs=1048576, units=25600, ranks=-1, batch_size=8)
GIB = 1 << 30


class Scale(launch.Case):
    def plan(self, text, ranks):
        """The plan, made in under 5 s and 1 GiB."""
        self.write(text)
        result = self.run_ok(0, "plan", "config.yaml", "--ranks", ranks, "--json")
        self.assertLess(result.seconds, 5)
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, GIB)
        return result.json()

    def assert_blocks_are_split(self, plan):
        state = {s["path"]: s for s in plan["state"]}
        self.assertEqual(plan["mesh"]["ranks"], 4096)
        for block in range(64):
            self.assertEqual(state[f"block_{block}/up/kernel"]["local"], [32, 512])
            self.assertEqual(state[f"block_{block}/down/kernel"]["local"], [512, 32])

    def test_64_blocks_on_three_axes_of_4096_ranks(self):
        self.assert_blocks_are_split(self.plan(BLOCKS, 4096))

    def test_64_blocks_that_all_read_one_tensor(self):
        self.assert_blocks_are_split(self.plan(READ_BY_ALL, 4096))

    def test_a_variable_of_100_gib_over_eight_ranks(self):
        plan = self.plan(LARGE, 8)
        kernel = plan["state"][0]
        self.assertEqual((kernel["path"], kernel["bytes"]), ("wide/kernel", 100 * GIB // 8))
        self.assertLess(sum(plan["pools"].values()), 26 * GIB)  # kernel and gradient of a rank


if __name__ == "__main__":
    unittest.main()
