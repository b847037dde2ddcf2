"""A Slurm of one node: munged, slurmctld and slurmd of the system's packages, in a folder and on ports of their own."""

import getpass
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

DAEMONS = ("munged", "slurmctld", "slurmd")
PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"

# cred_expire: how long a job that is queued again waits at least; below 5 it would be 120 s.
CONFIG = """\
ClusterName=tessera
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthInfo=socket={folder}/munge/socket,cred_expire=5
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
GresTypes=gpu
ReturnToService=2
KillWait=5
SchedulerParameters=sched_interval=2,bf_interval=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=1000 Gres=gpu:{cpus}
PartitionName=all Nodes={host} Default=YES
"""


def missing_daemons():
    return [name for name in DAEMONS if not shutil.which(name, path=PATH)]


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Cluster:
    """`with Cluster(cpus) as cluster`: daemons that answer; `environment` is what Slurm's commands need."""

    def __init__(self, cpus):
        self.cpus = cpus
        self.daemons = {}

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tessera_slurm_"))
        self.folder.chmod(0o755)  # munged wants its socket to be within everyone's reach
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        for name in ("state", "spool", "munge"):
            (self.folder / name).mkdir(mode=0o755)
        key = self.folder / "munge/key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        config = self.folder / "slurm.conf"
        config.write_text(CONFIG.format(folder=self.folder, host=socket.gethostname().partition(".")[0], cpus=self.cpus,
                                        user=getpass.getuser(), ports=free_ports(2)))
        for gpu in range(self.cpus):  # as Slurm counts them
            (self.folder / f"gpu{gpu}").touch()
        (self.folder / "gres.conf").write_text(f"AutoDetect=off\nName=gpu File={self.folder}/gpu[0-{self.cpus - 1}]\n")
        launchers = ("SLURM_", "SRUN_", "SBATCH_", "OMPI_", "PMIX_")
        outer = {k: v for k, v in os.environ.items() if not k.startswith(launchers)}
        self.environment = {**outer, "PATH": PATH, "SLURM_CONF": str(config)}
        files = [f"--{name}-file={self.folder}/munge/{name}" for name in ("key", "pid", "log", "seed")]
        self.daemon("munged", "--foreground", f"--socket={self.folder}/munge/socket", "--num-threads=2", *files)
        self.until(lambda: (self.folder / "munge/socket").exists(), 10, "munged's socket")
        self.daemon("slurmctld", "-D", "-f", str(config))
        self.daemon("slurmd", "-D", "-f", str(config))
        self.until(lambda: "idle" in self.call("sinfo", "--noheader", "--format=%T", check=False), 30, "an idle node")

    def daemon(self, name, *words):
        with open(self.folder / f"{name}.log", "w") as log:
            self.daemons[name] = subprocess.Popen([shutil.which(name, path=PATH), *words], env=self.environment,
                                                  stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self):
        """Ends jobs, daemons and whatever of the jobs still runs."""
        if len(self.daemons) == len(DAEMONS):
            self.cancel_all()
        for daemon in reversed(self.daemons.values()):
            daemon.terminate()
        for daemon in self.daemons.values():
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def cancel_all(self):
        self.call("scancel", "--user", getpass.getuser(), check=False)

    def processes(self):
        """Ids of the processes that this Slurm started."""
        mark = f"SLURM_CONF={self.folder}/slurm.conf".encode()
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                pass
        return found

    def call(self, *words, check=True, folder=None, env=None, limit=60):
        """The standard output of one of Slurm's commands, with standard error where it need not succeed."""
        result = subprocess.run(words, env={**self.environment, **(env or {})}, cwd=folder, text=True, timeout=limit,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if check and result.returncode != 0:
            said = f"exit {result.returncode}\n{result.stdout}\n{self.logs()}"
            raise AssertionError(f"{' '.join(map(str, words))}: {said}")
        return result.stdout

    def submit(self, *words, **options):
        """The id of a job."""
        return self.call("sbatch", "--parsable", *map(str, words), **options).strip().partition(";")[0]

    def show(self, job):
        """The fields of `scontrol show job`; of an array, of its first task."""
        words = self.call("scontrol", "show", "job", job).split()
        return dict(word.partition("=")[::2] for word in words if "=" in word)

    def until(self, holds, limit, what):
        """Waits until holds() is true, which it returns."""
        deadline = time.monotonic() + limit
        while not (value := holds()):
            if time.monotonic() > deadline:
                raise AssertionError(f"no {what} within {limit} s\n{self.logs()}")
            time.sleep(0.03)
        return value

    def logs(self):
        return "".join(f"--- {file.name}\n{file.read_text()[-4000:]}" for file in sorted(self.folder.glob("*.log")))
