"""The trainer on emulated GPUs: which it takes, what it says when there are none or one fails, and that no order of what
the cards leave open changes a bit of the result."""

import json
import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "launch"))
import launch  # noqa: E402

MODEL = """
version: 1
name: small
device: {device}
model:
  inputs: {{x: {{shape: [40]}}}}
  layers:
    - Dense: {{name: dense_1, units: 64, activation: relu}}
    - LayerNormalization: {{name: norm}}
    - Dropout: {{name: dropout, rate: 0.25}}
    - Dense: {{name: dense_2, units: 8}}
distribution:
  ModelParallel:
    mesh: {{shape: [-1], axis_names: [batch]}}
    layout_map:
      dense_1/kernel: [null, batch]
compile:
  optimizer: {{Adam: {{learning_rate: 0.01}}}}
  loss: {{SparseCategoricalCrossentropy: {{from_logits: true}}}}
  metrics: [accuracy]
data:
  train: {{random: {{samples: 96}}}}
fit:
  epochs: 2
  batch_size: 24
"""
CONFIG, INTERNAL, OUT_OF_MEMORY, PEER_LOST = 2, 1, 5, 7


class Gpus(launch.Case):
    def train(self, ranks, env=None, device="cuda", words=(), limit=120):
        self.write(MODEL.format(device=device))
        return launch.run(ranks, "train", "config.yaml", *words, folder=self.folder, env=env, limit=limit)

    def refused(self, result, code, *parts):
        self.assertEqual((len(result.errors), result.code), (1, code), str(result))
        for part in parts:
            self.assertIn(part, result.errors[0])

    def test_without_a_gpu_is_one_sentence(self):
        self.refused(self.train(1, {"TESSERA_EMULATED_GPUS": "0"}), CONFIG, "config.yaml:4:9", "sees no GPU")

    def test_auto_without_a_gpu_trains_on_the_cpu(self):
        result = self.train(1, {"TESSERA_EMULATED_GPUS": "0"}, device="auto")
        self.assertEqual(result.code, 0, str(result))

    def test_a_driver_that_is_too_old_is_one_sentence(self):
        self.refused(self.train(1, {"TESSERA_EMULATED_DRIVER": "12040"}), CONFIG, "made for CUDA 12.4", "or newer")

    def test_more_ranks_than_gpus_are_refused(self):
        self.refused(self.train(3, {"TESSERA_EMULATED_GPUS": "2"}), CONFIG, "3 ranks run on", "which has 2 GPUs")

    def test_two_ranks_on_one_gpu_are_refused(self):
        self.refused(self.train(2, {"TESSERA_EMULATED_GPUS": "1"}), CONFIG, "rank 0 and rank 1", "the same GPU (0000:")

    def test_a_plan_beyond_the_free_memory_is_found_before_it_is_allocated(self):
        words = "--set", "model.layers.0.Dense.units=1000000"
        self.refused(self.train(1, {"TESSERA_EMULATED_MEMORY": "600000000"}, words=words), OUT_OF_MEMORY, "dense_1/kernel")

    def test_a_kernel_that_fails_ends_the_job_with_rank_host_and_instruction(self):
        result = self.train(2, {"TESSERA_EMULATED_FAIL": "launch:60@1"})
        self.refused(result, INTERNAL, "rank 1 on ", "step ", "(instruction ", "illegal")
        self.assertLess(result.seconds, 60)

    def test_a_collective_that_fails_ends_the_job_with_rank_host_and_instruction(self):
        result = self.train(2, {"TESSERA_EMULATED_FAIL": "nccl:9@0"})
        self.refused(result, PEER_LOST, "rank 0 on ", "(instruction ", "step ")

    def test_results_are_the_same_bits_in_any_order(self):
        def outcome(seed, order):
            env = {"TESSERA_EMULATED_SEED": str(seed), "TESSERA_EMULATED_ORDER": order}
            result = self.train(2, env)
            self.assertEqual(result.code, 0, str(result))
            losses = [e["loss"] for e in self.events("small", "step")]
            return losses, (self.folder / "runs" / "small" / "final.safetensors").read_bytes()

        first = outcome(1, "eager")
        for seed in range(2, 22):
            self.assertEqual(outcome(seed, "random" if seed % 4 else "late"), first, f"seed {seed}")

    def test_a_replayed_step_has_the_same_bits(self):
        def outcome(graphs, words=(), env=None):
            words = "--set", f"cuda_graphs={graphs}", *words
            result = self.train(2, env, words=words)
            self.assertEqual(result.code, 0, str(result))
            return ([(e["loss"], e.get("grad_norm")) for e in self.events("small", "step")],
                    (self.folder / "runs" / "small" / "final.safetensors").read_bytes())

        for words in ((), ("--set", "distribution.micro_batches=2"),
                      ("--set", "compile.optimizer.Adam.gradient_accumulation_steps=2")):
            plain = outcome("false", words)
            for seed in range(3):
                env = {"TESSERA_EMULATED_SEED": str(seed), "TESSERA_EMULATED_ORDER": "late" if seed else "random"}
                self.assertEqual(outcome("true", words, env), plain, f"{words} {seed}")

    def test_a_failure_of_a_replayed_step_ends_the_job_with_rank_and_step(self):
        words = "--set", "cuda_graphs=true"
        result = self.train(2, {"TESSERA_EMULATED_FAIL": "launch:200@1"}, words=words)
        self.refused(result, INTERNAL, "rank 1 on ", "in the CUDA graph of the step", "illegal")
        result = self.train(2, {"TESSERA_EMULATED_FAIL": "hang:200@1"}, words=(*words, "--timeout", "5"))
        self.refused(result, PEER_LOST, "step ", "the CUDA graph of the step")

    def test_a_run_goes_on_with_the_same_bits_and_on_the_cpu_up_to_rounding(self):
        def losses():
            return [e["loss"] for e in self.events("small", "step")]

        weights = self.folder / "runs" / "small" / "final.safetensors"
        self.assertEqual(self.train(2).code, 0)
        expected, bits = losses(), weights.read_bytes()
        saving = "--set", "checkpoint={every_steps: 3}", "--set", "fit.epochs=1"
        for device in ("cuda", "cpu"):
            self.assertEqual(self.train(2, words=("--resume", "never", *saving)).code, 0)
            newest = max((self.folder / "runs" / "small" / "checkpoints").iterdir())
            self.assertEqual(newest.name, "step_000000004")
            shutil.rmtree(newest)  # go on inside the epoch
            result = self.train(2 if device == "cuda" else 1, device=device)
            self.assertEqual(result.code, 0, str(result))
            self.assertIn("resumes after step 3,", result.stderr)
            if device == "cuda":
                self.assertEqual((losses(), weights.read_bytes()), (expected, bits))
            for one, other in zip(losses(), expected, strict=True):
                self.assertAlmostEqual(one, other, delta=1e-4)

    def test_products_in_tensorfloat32_are_asked_for(self):
        self.assertEqual(self.train(1, words=("--set", "matmul_precision=tensorfloat32")).code, 0)
        plan = json.loads((self.folder / "runs" / "small" / "plan.json").read_text())
        self.assertEqual(plan["device"], "cuda (device: cuda; products in tensorfloat32)")

    def test_planned_bytes_and_collectives_are_the_allocated_and_counted(self):
        self.assertEqual(self.train(2).code, 0)
        end, = self.events("small", "end")
        plan = json.loads((self.folder / "runs" / "small" / "plan.json").read_text())
        self.assertEqual(end["pools"], plan["pools"])
        self.assertGreater(plan["pools"]["uploaded inputs"], 0)
        self.assertGreater(end["collectives"]["all_gather"]["count"], 0)


if __name__ == "__main__":
    unittest.main()
