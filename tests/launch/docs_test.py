"""What the documentation shows is true: its configs are valid, its schema is the program's."""

import re
import unittest

import launch

DOCS = launch.ROOT / "docs"


class Docs(launch.Case):
    def test_every_example_of_the_config_reference_is_valid(self):
        examples = re.findall(r"^```yaml\n(.*?)^```", (DOCS / "config.md").read_text(), re.DOTALL | re.MULTILINE)
        self.assertGreaterEqual(len(examples), 3)
        for example in examples:
            with self.subTest(example):
                self.write(example)
                self.run_ok(0, "validate", "config.yaml", "--ranks", 2)

    def test_the_whole_example_trains(self):
        self.write(re.search(r"^```yaml\n(.*?)^```", (DOCS / "config.md").read_text(), re.DOTALL | re.MULTILINE)[1])
        self.run_ok(2, "train", "config.yaml", "--set", "fit.epochs=1")

    def test_layers_is_the_schema(self):
        shown = re.search(r"^```\n(.*?)^```", (DOCS / "layers.md").read_text(), re.DOTALL | re.MULTILINE)[1]
        self.assertEqual(shown.rstrip(), launch.run(0, "schema").stdout.rstrip())


if __name__ == "__main__":
    unittest.main()
