"""advise --measure ranks ways and examples as real training runs do. Nothing may run beside it."""

import itertools
import statistics
import unittest

import launch

EXAMPLES = ("digits_mlp", "mlp_fsdp", "mlp_megatron")
RANKS = 2
SMALL = "--set", "fit.batch_size=64"
CLEAR = 1.3  # ratio of two times from which their order is not noise


class Measured(launch.Case):
    def advised(self, config):
        """Milliseconds a step, by (config, way)."""
        file = launch.CONFIGS / f"{config}.yaml"
        advice = self.run_ok(RANKS, "advise", file, "--json", "--measure", *SMALL, limit=200).json()
        return {(config, c["name"]): c["measured_ms"] for c in advice["candidates"]}

    def trained(self, config, *words):
        """Median time of a training step, without the first ones."""
        self.run_ok(RANKS, "train", launch.CONFIGS / f"{config}.yaml", "--set", "output_dir=runs", *SMALL, "--set",
                    "fit.epochs=1", "--set", "fit.steps_per_epoch=16", *words, limit=200)
        return statistics.median(e["step_ms"] for e in self.events(config, "step")[3:])

    def contradictions(self):
        """Pairs that one clearly ranks so and the other clearly the other way round; and how many pairs were clear."""
        advised, trained = {}, {}
        for config in EXAMPLES:
            advised.update(self.advised(config))
            trained[config, "DataParallel"] = self.trained(config, "--set", "distribution=DataParallel")
            if (config, "this layout") in advised:
                trained[config, "this layout"] = self.trained(config)
        clear = [(a, b) for a, b in itertools.permutations(trained, 2) if trained[a] > CLEAR * trained[b]]
        return [(a, b, advised, trained) for a, b in clear if advised[b] > CLEAR * advised[a]], len(clear)

    def test_ways_and_examples_are_ranked_as_their_training_runs(self):
        found, clear = self.contradictions()
        if found:  # something else ran
            found, clear = self.contradictions()
        self.assertEqual(found, [])
        self.assertGreaterEqual(clear, 4, "the digits are far faster than the other examples, each in two ways")


if __name__ == "__main__":
    unittest.main()
