"""Two hosts, which are namespaces of this machine: names, addresses and /dev/shm of their own, a bridge between."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

import isolate
import launch

HOSTS = {"alpha": "10.77.0.1", "beta": "10.77.0.2"}
AGENT = pathlib.Path(__file__).with_name("enter_host.sh")
CONFIG = """\
name: mlp
seed: 3
model:
  inputs: {x: {shape: [256]}}
  layers: [{Dense: {name: wide, units: 512, activation: relu}}, {Dense: {name: narrow, units: 256}}]
compile: {optimizer: adam, loss: mse}
data:
  train: {random: {samples: 512}}
fit: {epochs: 4, batch_size: 64}
"""
STEPS = 4 * 512 // 64
GRADIENT_BYTES = 4 * (256 * 512 + 512 + 512 * 256 + 256)


def call(*words):
    subprocess.run(words, check=True)


def pids():
    return [int(entry.name) for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit()]


def link(pid, name):
    """Where a link in /proc leads; None of a process that has ended."""
    try:
        return os.readlink(f"/proc/{pid}/{name}")
    except OSError:
        return None


def environment(pid):
    return pathlib.Path(f"/proc/{pid}/environ").read_bytes()


class Host:
    """A process that keeps the namespaces."""

    def __init__(self, name, address, registry):
        self.name = name
        setup = f"hostname {name} && mount -t tmpfs -o size=256m tmpfs /dev/shm && echo ready && exec sleep infinity"
        self.process = subprocess.Popen(["unshare", "--net", "--uts", "--mount", "sh", "-c", setup],
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        self.uts = os.readlink(f"/proc/{self.process.pid}/ns/uts")
        call("ip", "link", "add", f"to_{name}", "type", "veth", "peer", "name", "eth0", "netns", str(self.process.pid))
        call("ip", "link", "set", f"to_{name}", "master", "bridge", "up")
        for words in (("addr", "add", f"{address}/24", "dev", "eth0"), ("link", "set", "eth0", "up"),
                      ("link", "set", "lo", "up")):
            call("nsenter", "--target", str(self.process.pid), "--net", "ip", *words)
        (registry / name).write_text(str(self.process.pid))

    def sent(self, interface):
        """Bytes that have gone out."""
        lines = pathlib.Path(f"/proc/{self.process.pid}/net/dev").read_text().splitlines()
        line, = (line for line in lines if line.strip().startswith(f"{interface}:"))
        return int(line.split(":")[1].split()[8])

    def shared_memory(self):
        return os.listdir(f"/proc/{self.process.pid}/root/dev/shm")

    def processes(self):
        """Ids of all that runs here."""
        return [pid for pid in pids() if link(pid, "ns/uts") == self.uts]

    def end(self):
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()
        subprocess.run(["ip", "link", "delete", f"to_{self.name}"], check=False, stderr=subprocess.DEVNULL)


class Hosts(launch.Case):
    def setUp(self):
        super().setUp()
        self.write(CONFIG)
        self.hosts = {name: Host(name, address, self.folder) for name, address in HOSTS.items()}
        for host in self.hosts.values():
            self.addCleanup(host.end)

    def start(self, *words, **options):
        """Two ranks on each host; mpirun runs on alpha."""
        flags = ["--host", ",".join(f"{name}:2" for name in HOSTS), "--mca", "plm_rsh_agent", str(AGENT)]
        mpirun = os.environ.get("TESSERA_MPIRUN", "mpirun")
        enter = [str(AGENT), "alpha", f"cd {self.folder} && exec", mpirun, "-np", "4", *flags]
        registry = {"TESSERA_HOSTS": str(self.folder)}
        return launch.Job(0, words, folder=self.folder, before=enter, env=registry, **options)

    def ok(self, result):
        self.assertEqual((result.code, result.errors), (0, []), str(result))
        return result

    def ranks(self):
        """Host of each running rank, by process id."""
        return {pid: name for name, host in self.hosts.items() for pid in host.processes()
                if link(pid, "exe") == os.path.realpath(launch.TRAINER)}

    def losses(self, name):
        return [event["loss"] for event in self.events(name, "step")]

    def weights(self, name):
        return (self.folder / "runs" / name / "final.safetensors").read_bytes()

    def test_training_is_the_same_as_on_one_host_with_shared_memory_inside_and_tcp_between(self):
        before = {name: (host.sent("eth0"), host.sent("lo")) for name, host in self.hosts.items()}
        self.ok(self.start("train", "config.yaml").wait(60))
        for name, host in self.hosts.items():
            outside, inside = (now - then for now, then in zip((host.sent("eth0"), host.sent("lo")), before[name]))
            print(f"{name}: {outside >> 10} KiB to the other host, {inside >> 10} KiB to itself", file=sys.stderr)
            # Two hosts: each sends a half of its sums and then the half that it has summed.
            self.assertGreater(outside, STEPS * GRADIENT_BYTES)
            self.assertLess(outside, 1.3 * STEPS * GRADIENT_BYTES + (1 << 20))
            self.assertLess(inside, 1 << 20)
        two_nodes = {"TESSERA_RANKS_PER_NODE": "2"}
        self.run_ok(4, "train", "config.yaml", "--set", "name=nodes", env=two_nodes)
        self.assertEqual(self.weights("mlp"), self.weights("nodes"))
        self.run_ok(4, "train", "config.yaml", "--set", "name=one")
        self.assertEqual(len(self.losses("mlp")), STEPS)
        for here, there in zip(self.losses("one"), self.losses("mlp")):
            self.assertAlmostEqual(here, there, delta=1e-5 * abs(here))

    def test_verify_passes_on_a_mesh_whose_axes_lie_within_and_between_hosts(self):
        mesh = "distribution: {ModelParallel: {mesh: {shape: [2, 2], axis_names: [batch, model]}, " \
               "layout_map: {'.*kernel': [null, model]}}}\n"
        self.write(CONFIG + mesh)
        result = self.ok(self.start("verify", "config.yaml", "--json").wait(60))
        self.assertTrue(result.json())

    def test_ranks_of_a_host_share_its_memory_and_no_other(self):
        job = self.start_training()
        hosts = sorted(self.ranks().values())
        self.assertEqual(hosts, ["alpha", "alpha", "beta", "beta"])
        mapped = {name: set() for name in HOSTS}
        for pid, host in self.ranks().items():
            mapped[host] |= set(re.findall(r"/dev/shm/(\S+)", pathlib.Path(f"/proc/{pid}/maps").read_text()))
        for name, host in self.hosts.items():
            self.assertTrue(host.shared_memory())
            self.assertTrue(mapped[name])
        self.assertFalse(mapped["alpha"] & mapped["beta"])
        self.assertNotEqual(*(set(host.shared_memory()) for host in self.hosts.values()))
        job.process.kill()
        job.wait(20)

    def start_training(self):
        """A job without end that has made some steps."""
        job = self.start("train", "config.yaml", "--timeout", "10", "--set", "fit.epochs=100000")
        self.wait_for_steps(job, "mlp")
        return job

    def test_a_stopped_rank_is_named_with_its_host(self):
        job = self.start_training()
        victim, = (pid for pid in self.ranks() if b"\0OMPI_COMM_WORLD_RANK=3\0" in environment(pid))
        os.kill(victim, signal.SIGSTOP)
        result = job.wait(30)
        self.assertEqual(result.code, 7, str(result))
        self.assertIn(len(result.errors), (1, 2), str(result))  # a host may speak before mpirun has ended it
        spoken = [error.splitlines()[0] for error in result.errors]
        named = [re.search(r" has waited 1[01] s for ranks? [23, ]+ \(beta\)$", error) for error in spoken]
        self.assertTrue(all(named), spoken)
        self.assertRegex("\n".join(spoken), r"for ranks? (2, )?3 \(beta\)")

    def test_a_link_that_drops_ends_the_job_with_a_sentence_and_without_a_rank_left(self):
        job = self.start_training()
        start = time.monotonic()
        call("ip", "link", "set", "to_beta", "down")
        result = job.wait(40)
        print(f"ended after {time.monotonic() - start:.1f} s\n{result}", file=sys.stderr)
        self.assertNotEqual(result.code, 0)
        sentence, = result.errors
        self.assertRegex(sentence, r"rank [01] on alpha: (.* of .*, layer .* \(instruction \d+, step \d+\)|"
                                   r"the vote of all ranks.*) has waited 11 s for ranks? [23](, 3)? \(beta\)")
        while self.ranks():
            self.assertLess(time.monotonic() - start, 25, f"ranks were left: {self.ranks()}")
            time.sleep(0.1)


if __name__ == "__main__":
    if not isolate.isolate("net"):
        isolate.skip("network namespaces need root and CAP_NET_ADMIN, CAP_SYS_ADMIN")
    names = pathlib.Path("/run/tessera_hosts")
    call("mount", "--make-rprivate", "/")
    call("mount", "-t", "tmpfs", "tmpfs", "/run")
    names.write_text("127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in HOSTS.items()))
    call("mount", "--bind", str(names), "/etc/hosts")
    call("ip", "link", "set", "lo", "up")
    call("ip", "link", "add", "bridge", "type", "bridge")
    call("ip", "link", "set", "bridge", "up")
    unittest.main()
