"""An installed trainer, its .deb and its tarball: what they hold, and that they train where the source tree is not.

TESSERA_BUILD names the build's folder (default: build/release)."""

import gzip
import hashlib
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "launch"))
import launch

BUILD = pathlib.Path(os.environ.get("TESSERA_BUILD", launch.ROOT / "build/release"))
EXAMPLE = "share/tessera/examples/digits_mlp.yaml"
FILES = {
    "bin/trainer", "share/man/man1/trainer.1.gz", "share/bash-completion/completions/trainer",
    "share/zsh/vendor-completions/_trainer", "share/doc/tessera/README.md",
    *(f"share/doc/tessera/{file.name}" for file in (launch.ROOT / "docs").glob("*.md")),
    *(f"share/tessera/examples/{file.relative_to(launch.CONFIGS)}" for file in launch.CONFIGS.rglob("*.*")),
    *(f"share/tessera/slurm/{file.name}" for file in (launch.ROOT / "scripts/slurm").glob("*")),
    *(f"lib/tessera/{file.name}" for file in (BUILD / "bin").glob("libtessera_*.so")),
}
PROGRAM = pathlib.Path("bin/trainer")
WITHOUT_SOURCES = ("unshare", "--map-root-user", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"',
                   str(launch.ROOT))


def call(*words, **options):
    result = subprocess.run(list(map(str, words)), capture_output=True, text=True, **options)
    if result.returncode:
        raise AssertionError(f"{' '.join(map(str, words))}\n{result.stdout}{result.stderr}")
    return result.stdout


def files_below(folder):
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if not file.is_dir()}


class Installed(launch.Case):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix="tessera_install_"))
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        call("cmake", "--install", BUILD, "--prefix", cls.root / "prefix", umask=0o077)
        call("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", cls.root / "packages", umask=0o077)
        cls.deb, = (cls.root / "packages").glob("*.deb")
        cls.tarball, = (cls.root / "packages").glob("*.tar.gz")
        call("dpkg-deb", "-x", cls.deb, cls.root / "deb")
        (cls.root / "tar").mkdir()
        call("tar", "-xzf", cls.tarball, "-C", cls.root / "tar")
        cls.version = call(launch.TRAINER, "--version").split()[1]
        cls.trees = {"install": cls.root / "prefix", "deb": cls.root / "deb/usr",
                     "tarball": cls.root / f"tar/tessera-{cls.version}-linux-x86_64"}

    def test_each_holds_the_same_files(self):
        for name, tree in self.trees.items():
            self.assertEqual(files_below(tree), FILES, name)

    def test_all_may_read_and_nobody_but_the_owner_may_write(self):
        for tree in self.trees.values():
            for path in tree.rglob("*"):
                runs = path.is_dir() or path.suffix == ".so" or path.relative_to(tree) == PROGRAM
                mode = stat.S_IMODE(path.stat().st_mode) | (0o111 if path.suffix == ".so" else 0)  # either, by distribution
                self.assertEqual(oct(mode), oct(0o755 if runs else 0o644), path)

    def test_no_file_names_the_build(self):
        for tree in self.trees.values():
            for file in files_below(tree):
                content = (tree / file).read_bytes()
                content = gzip.decompress(content) if file.endswith(".gz") else content
                for folder in (launch.ROOT, BUILD):
                    self.assertNotIn(os.fsencode(folder) + b"/", content, file)
            paths = re.findall(r"R(?:UN)?PATH.*\[(.*)\]", call("readelf", "-d", tree / PROGRAM))
            self.assertEqual([p for p in paths if not p.startswith("/usr/lib")], [])

    def test_it_trains_from_any_folder_where_the_source_tree_is_not(self):
        hidden = subprocess.run([*WITHOUT_SOURCES, "test", "!", "-e", launch.ROOT / "CMakeLists.txt"]).returncode == 0
        if not hidden:
            print("this machine allows no mount namespace: the source tree stays in sight", file=sys.stderr)
        trainer, before = launch.TRAINER, WITHOUT_SOURCES if hidden else ()
        for tree in self.trees.values():
            try:
                launch.TRAINER = str(tree / PROGRAM)
                self.run_ok(2, tree / EXAMPLE, "--set", "fit.epochs=2", "--resume", "never", before=before)
                end, = self.events("digits_mlp", "end")
                self.assertEqual(end["steps"], 46)
            finally:
                launch.TRAINER = trainer

    def test_destdir_goes_before_the_prefix(self):
        call("cmake", "--install", BUILD, "--prefix", "/opt/tessera", env={**os.environ, "DESTDIR": str(self.folder)})
        self.assertEqual(files_below(self.folder), {f"opt/tessera/{file}" for file in FILES})

    def test_the_packages_names_have_the_version(self):
        self.assertEqual(self.deb.name, f"tessera_{self.version}_{call('dpkg', '--print-architecture').strip()}.deb")
        self.assertEqual(self.tarball.name, f"tessera-{self.version}-linux-x86_64.tar.gz")

    def test_the_deb_depends_on_mpirun_and_on_the_package_of_each_library(self):
        needed = re.findall(r"NEEDED.*\[(.*)\]", call("readelf", "-d", self.trees["deb"] / PROGRAM))
        paths = dict(re.findall(r"(\S+) => (\S+)", call("ldd", self.trees["deb"] / PROGRAM)))
        depends = re.split(r"(?: \([^)]*\))?, ", call("dpkg-deb", "-f", self.deb, "Depends").strip())
        self.assertIn("openmpi-bin", depends)
        self.assertIn("libmpi.so.40", needed)
        for library in needed:
            owners = set()  # of the path, or of what an alternative or a merged /usr makes of it
            for path in {paths[library], os.path.realpath(paths[library]), "/usr" + paths[library]}:
                found = subprocess.run(["dpkg", "-S", path], capture_output=True, text=True).stdout
                owners |= {line.split(":")[0] for line in found.splitlines() if "diversion" not in line}
            provided = owners | {owner.partition("-")[0] for owner in owners}
            self.assertTrue(provided & {d.partition(" ")[0] for d in depends}, f"{library} of {owners}: {depends}")
        self.assertNotRegex(" ".join(depends), "cuda|cublas|nccl")

    def test_the_deb_is_sound(self):
        call("dpkg-deb", "-e", self.deb, self.folder)
        for line in (self.folder / "md5sums").read_text().splitlines():
            digest, file = line.split(maxsplit=1)
            self.assertEqual(hashlib.md5((self.root / "deb" / file).read_bytes()).hexdigest(), digest, file)
        self.assertEqual(len((self.folder / "md5sums").read_text().splitlines()), len(FILES))
        owners = {line.split()[1] for line in call("dpkg-deb", "-c", self.deb).splitlines()}
        self.assertEqual(owners, {"root/root"})
        fields = call("dpkg-deb", "-f", self.deb)
        for field in ("Package: tessera", f"Version: {self.version}", "Maintainer: ", "Description: ", "Section: ",
                      "Installed-Size: "):
            self.assertIn(field, fields)
        self.assertNotIn(".symtab", call("readelf", "-SW", self.trees["deb"] / PROGRAM), "it isn't stripped")


if __name__ == "__main__":
    unittest.main()
