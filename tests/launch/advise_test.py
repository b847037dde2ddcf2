"""advise: the simplest way that fits."""

import unittest

import launch
from scale_test import LARGE


class Advise(launch.Case):
    def advise(self, ranks, config, *words):
        return self.run_ok(ranks, "advise", config, "--json", *words).json()

    def test_one_device_is_enough_for_the_seed(self):
        advice = self.advise(0, launch.CONFIGS / "seed_mesh_2x4.yaml", "--ranks", 8)
        self.assertEqual(advice["simplest"], "one device")
        self.assertTrue(all(c["fits"] for c in advice["candidates"]))
        self.assertRegex(advice["verdict"][0], "One device is enough for memory")
        self.assertRegex(" ".join(advice["verdict"]), "With DataParallel")
        self.assertEqual([c["name"] for c in advice["candidates"]],
                         ["one device", "DataParallel", "sharded parameters", "this layout"])

    def test_no_replica_of_100_gib_fits_and_the_layout_that_does_is_named(self):
        self.write("hardware: h100\n" + LARGE)
        advice = self.advise(0, "config.yaml", "--ranks", 8)
        fits = {c["name"]: c["fits"] for c in advice["candidates"]}
        self.assertEqual((fits["one device"], fits["DataParallel"], fits["this layout"]), (False, False, True))
        self.assertRegex(advice["verdict"][0], "^No replica fits: one device needs .* DataParallel needs ")
        self.assertRegex(" ".join(advice["verdict"]), "this layout is the simplest that fits")

    def test_no_way_that_fits_says_so(self):
        self.write("hardware: h100\n" + LARGE)
        advice = self.advise(0, "config.yaml", "--ranks", 1)
        self.assertIsNone(advice["simplest"])
        self.assertRegex(" ".join(advice["verdict"]), "None of these fits")


if __name__ == "__main__":
    unittest.main()
