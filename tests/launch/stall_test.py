"""Steps go on at their usual pace while a checkpoint is written to a slow disk. Compares times: nothing runs beside it."""

import statistics
import unittest

import launch

CONFIG = """\
name: run
device: cpu
model: {inputs: {x: {shape: [1024]}}, layers: [{Dense: {units: 2048, activation: relu}}, {Dense: {units: 1024}}]}
compile: {optimizer: adam, loss: mse}
data: {train: {random: {samples: 4096}}}
fit: {epochs: 5, batch_size: 128}
checkpoint: {every_steps: 80, mb_per_s: 20}
"""  # 50 MB: 2.5 s


class Stall(launch.Case):
    def test_a_step_takes_its_usual_time_while_a_checkpoint_is_written(self):
        ratios = []
        for _ in range(5):
            self.write(CONFIG)
            self.run_ok(1, "config.yaml", "--resume", "never")
            saves = {e["step"]: e for e in self.events("run", "checkpoint")}
            steps = {e["step"]: e["step_ms"] for e in self.events("run", "step")}
            self.assertGreater(saves[80]["write_s"], 2)
            # Steps before it, and those that a write of over two seconds covers; the one that waits for the copy is apart.
            before = statistics.median(steps[k] for k in range(40, 80))
            reach, k = 0, 82
            while reach < 1500:
                reach += steps[k]
                k += 1
            while_written = statistics.median(steps[j] for j in range(82, k))
            self.assertLess(saves[80]["copy_ms"], 1000)
            ratios.append(while_written / before)
            if ratios[-1] <= 1.1:
                return
        self.fail(f"steps while a checkpoint is written to those before: {ratios}")


if __name__ == "__main__":
    unittest.main()
