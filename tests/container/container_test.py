"""The Dockerfile's image, built and run without a daemon: by buildah in chroots, as root, on a base of this machine's
release that debootstrap makes and that stays in TESSERA_BUILD/container. The package of that build goes into it."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "launch"))
import launch

BUILD = pathlib.Path(os.environ.get("TESSERA_BUILD", launch.ROOT / "build/release"))
CONTEXT = (".dockerignore", "Dockerfile", "scripts/install_packages.sh", "scripts/packages.txt", "scripts/container_entry.sh",
           "scripts/container_smoke.sh")
SMALL, ENOUGH = "64m", "1g"  # /dev/shm: docker's default, and what the documentation says
LIMIT_MB = 500               # of the CPU image
OVERLAY = "\toverlay\n" in pathlib.Path("/proc/filesystems").read_text()
CONFIG = """\
name: wide
model:
  inputs: {x: {shape: [4096]}}
  layers: [{Dense: {units: 4096, use_bias: false}}]
compile: {optimizer: sgd, loss: mse}
data:
  train: {random: {samples: 8}}
fit: {epochs: 1, batch_size: 8}
"""


def call(*words, **options):
    result = subprocess.run(list(map(str, words)), capture_output=True, text=True, errors="replace", **options)
    if result.returncode:
        raise AssertionError(f"{' '.join(map(str, words))}\n{result.stdout[-4000:]}{result.stderr[-4000:]}")
    return result.stdout.strip()


def base_system():
    """The folder of a minimal system of this machine's release, made once."""
    release = dict(line.split("=", 1) for line in pathlib.Path("/etc/os-release").read_text().splitlines() if "=" in line)
    suite = release["VERSION_CODENAME"].strip('"')
    folder = BUILD / "container" / suite
    if not folder.exists():
        unfinished = folder.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        components = "main,universe" if release["ID"] == "ubuntu" else "main"
        call("debootstrap", "--variant=minbase", f"--components={components}", suite, unfinished)
        shutil.rmtree(unfinished / "var/lib/apt/lists")
        for file in (unfinished / "var/cache/apt/archives").glob("*.deb"):
            file.unlink()
        (unfinished / "etc/dpkg/dpkg.cfg.d/unsafe-io").write_text("force-unsafe-io\n")  # as in the official images
        unfinished.rename(folder)
    return folder


class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("buildah's chroots and a /dev/shm of its own need root")
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="tessera_container_", dir="/var/tmp"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.buildah = ["buildah", "--root", cls.folder / "store", "--runroot", cls.folder / "run", "--storage-driver",
                       "overlay" if OVERLAY else "vfs"]
        cls.addClassCleanup(call, *cls.buildah, "rm", "--all")
        scratch = call(*cls.buildah, "from", "scratch")
        call(*cls.buildah, "add", "-q", scratch, base_system(), "/")
        call(*cls.buildah, "commit", "-q", "--rm", scratch, "base")
        cls.context = cls.folder / "context"
        for file in CONTEXT:
            (cls.context / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(launch.ROOT / file, cls.context / file)
        call("cpack", "-G", "DEB", "--config", BUILD / "CPackConfig.cmake", "-B", cls.folder / "package")
        deb, = (cls.folder / "package").glob("*.deb")
        (cls.context / "dist").mkdir()
        shutil.copy(deb, cls.context / "dist")
        start = time.monotonic()
        call(*cls.buildah, "bud", "-q", "--isolation", "chroot", "--layers=false", "--format", "docker", "--build-arg",
             "BASE_BUILD=localhost/base", "--build-arg", "BASE_RUN=localhost/base", "--build-arg", f"PACKAGE=dist/{deb.name}",
             "-t", "tessera", cls.context)
        cls.image = json.loads(call(*cls.buildah, "inspect", "--type", "image", "tessera"))["Docker"]
        cls.container = call(*cls.buildah, "from", "tessera")
        cls.root = pathlib.Path(call(*cls.buildah, "mount", call(*cls.buildah, "from", "tessera")))  # never run in
        cls.megabytes = sum(f.stat().st_size for f in cls.root.rglob("*") if f.is_file() and not f.is_symlink()) / 1e6
        print(f"the image of {cls.megabytes:.0f} MB was built in {time.monotonic() - start:.0f} s", file=sys.stderr)

    def setUp(self):
        self.work = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        os.chown(self.work, 1000, 1000)
        (self.work / "config.yaml").write_text(CONFIG)

    def run_in_it(self, *words, shm=ENOUGH, user=None, options=()):
        """`docker run --shm-size=SHM -v WORK:/work tessera WORDS`: its exit code and what it said."""
        own_shm = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs -o size={shm} shm /dev/shm && exec "$@"', "sh"]
        user = ["--user", user] if user else []
        result = subprocess.run([*own_shm, *self.buildah, "run", "--isolation", "chroot", *user, *options, "-v",
                                 f"{self.work}:/work", self.container, "--", *self.image["config"]["Entrypoint"], *words],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
        return result.returncode, result.stdout

    def runs(self, *words, **how):
        code, said = self.run_in_it(*words, **how)
        self.assertEqual(code, 0, said)
        return said

    def test_it_trains_the_mounted_config_on_eight_ranks_as_a_user_without_any_rights(self):
        self.runs("mpirun", "-np", "8", "trainer", "config.yaml", options=["--cap-drop=all"])
        weights = self.work / "runs/wide/final.safetensors"
        self.assertEqual((weights.stat().st_uid, weights.stat().st_size > 4096 * 4096 * 4), (1000, True))

    def test_a_user_of_another_number_trains(self):
        os.chown(self.work, 4321, 4321)
        self.runs("mpirun", "-np", "2", "trainer", "config.yaml", user="4321:4321")
        self.assertEqual((self.work / "runs/wide/final.safetensors").stat().st_uid, 4321)
        self.runs("sh", "-c", 'test -w "$HOME"', user="4321:4321")  # for what is found once and kept

    def test_root_trains(self):
        self.runs("mpirun", "-np", "2", "trainer", "config.yaml", user="root")

    def test_fault_21_a_small_dev_shm_is_one_sentence_with_the_fix(self):
        code, said = self.run_in_it("mpirun", "-np", "2", "trainer", "config.yaml", shm=SMALL)
        self.assertEqual(code, 2, said)
        self.assertEqual(said.count("error: "), 1, said)
        self.assertRegex(said, r"error: .* of shared memory left in /dev/shm, and .* needs 128.*docker run --shm-size=\d+m")
        self.assertFalse((self.work / "runs/wide/final.safetensors").exists())

    def test_the_smoke_test_trains_and_names_a_small_dev_shm(self):
        for shm, warned in ((ENOUGH, False), (SMALL, True)):
            said = self.runs("container_smoke", shm=shm)
            self.assertEqual("--shm-size=1g" in said, warned, said)
            self.assertEqual(said.splitlines()[-1], "container_smoke: ok", said)
            self.assertRegex(said, r"trainer \d+\.\d+\.\d+\nOpen MPI")

    def test_the_smoke_test_fails_where_the_trainer_does(self):
        code, said = self.run_in_it("env", "EXAMPLES=/nowhere", "container_smoke")
        self.assertNotEqual(code, 0, said)
        self.assertNotIn("container_smoke: ok", said)

    def test_without_words_it_shows_the_help(self):
        self.assertIn("Subcommands:", self.runs(*self.image["config"]["Cmd"]))
        self.assertEqual((self.image["config"]["User"], self.image["config"]["WorkingDir"]), ("tessera", "/work"))

    def test_nothing_of_its_build_is_shipped(self):
        for path in ("src", "dist", "usr/bin/cmake", "usr/bin/c++", "usr/bin/nvcc", "usr/include/mpi.h"):
            self.assertFalse((self.root / path).exists(), path)
        for folder in ("var/lib/apt/lists", "var/cache/apt", "tmp"):
            self.assertEqual([str(file) for file in (self.root / folder).rglob("*")], [], folder)
        self.assertLess(self.megabytes, LIMIT_MB)

    def test_build_folders_are_no_part_of_the_context(self):
        kept = ("dist/a.deb", "lib/core/a.h")
        left = (".git/config", "build/release/x.o", "dist/a.tar.gz", "runs/x", "scripts/__pycache__/a.pyc")
        folder = self.folder / "ignored"
        for file in (*kept, *left):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text("x")
        shutil.copy(launch.ROOT / ".dockerignore", folder)
        (self.folder / "copy").write_text("FROM scratch\nCOPY . /copied/\n")
        call(*self.buildah, "bud", "-q", "-f", self.folder / "copy", "-t", "copy", folder)
        copied = pathlib.Path(call(*self.buildah, "mount", call(*self.buildah, "from", "copy"))) / "copied"
        found = {str(file.relative_to(copied)) for file in copied.rglob("*") if file.is_file()}
        self.assertEqual(found - {".dockerignore"}, set(kept))


if __name__ == "__main__":
    unittest.main(verbosity=2)
