"""Storage is never whole: a rank that trains holds what the plan says, and no more."""

import re
import pathlib
import threading
import unittest

import launch
import models

MIB = 1 << 20
CONFIG = models.one_wide_kernel(inputs=16384, units=24576, ranks=4, batch_size=4)
KERNEL = 16384 * 24576 * 4


def peak_bytes(pid):
    """VmHWM: private memory and what this process has touched of shared memory, its own share and parts of others'."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s*(\d+) kB", status)
    return int(found[1]) * 1024 if found else 0


class NeverWhole(launch.Case):
    def test_a_kernel_of_1_5_gib_over_four_ranks_stays_within_the_plan(self):
        self.assertEqual(KERNEL, 1536 * MIB)
        self.write(CONFIG)
        job = launch.Job(4, ["train", "config.yaml"], folder=self.folder)
        peaks = {}
        ended = threading.Event()

        def sample():
            pids = []
            while not ended.wait(0.05):
                if len(pids) < 4:
                    pids = job.rank_pids()
                for rank, pid in enumerate(pids):
                    peaks[rank] = max(peaks.get(rank, 0), peak_bytes(pid))

        sampler = threading.Thread(target=sample)
        sampler.start()
        try:
            result = job.wait(120)
        finally:
            ended.set()
            sampler.join()
        self.assertEqual(result.code, 0, str(result))
        end, = self.events("large", "end")
        self.assertEqual(end["steps"], 2)
        self.assertLess(end["planned_bytes"], KERNEL * 5 // 8)  # a quarter of it, of its gradient, and a little
        bound = end["baseline_bytes"] + end["planned_bytes"] + 32 * MIB
        self.assertLess(end["peak_rss_bytes"], bound)
        self.assertEqual(sorted(peaks), [0, 1, 2, 3])
        for rank, peak in peaks.items():
            self.assertGreater(peak, KERNEL // 4, "the samples missed the training")
            self.assertLess(peak, bound, f"rank {rank} of {end}")
        file = self.folder / "runs/large/final.safetensors"
        self.assertGreaterEqual(file.stat().st_size, KERNEL)


if __name__ == "__main__":
    unittest.main()
