"""Man page, completions and docs/cli.md know the verbs and options that `trainer VERB --help` prints, and no others."""

import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "launch"))
import launch

CLI = pathlib.Path(os.environ.get("TESSERA_BUILD", launch.ROOT / "build/release")) / "cli"


def say(*words):
    return subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True).stdout


def long_options(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))


def heads(help_text):
    """The options of a --help, without what their descriptions name."""
    return set().union(*map(long_options, re.findall(r"^  (-\S+)", help_text, re.MULTILINE)))


VERBS = re.findall(r"^  (\w+) ", say(launch.TRAINER, "--help").partition("Subcommands:")[2], re.MULTILINE)
OPTIONS = {verb: heads(say(launch.TRAINER, verb, "--help")) for verb in VERBS}


class CommandLine(launch.Case):
    def bash(self, *words):
        """What bash offers for the last of these words."""
        script = """cd "$1"; source "$2"; shift 2
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _trainer; printf '%s\\n' "${COMPREPLY[@]}" """
        return set(say("bash", "-c", script, "bash", self.folder, CLI / "trainer", "trainer", *words).split())

    def zsh(self, *words):
        """The specifications that zsh's _arguments and _describe are given for the last of these words."""
        script = """_arguments() { print -rl -- "$@" }; _describe() { print -rl -- "${(@P)@[-1]}" }
            file=$1; shift; words=("$@"); CURRENT=$#words; PREFIX=$words[-1]; source $file"""
        return say("zsh", "-f", "-c", script, "zsh", CLI / "_trainer", "trainer", *words).splitlines()

    def test_there_are_verbs_with_options(self):
        self.assertIn("train", VERBS)
        self.assertLess({"--help", "--set"}, OPTIONS["train"])

    def test_bash_completes_verbs_options_values_and_configs(self):
        self.write("", "model.yaml"), self.write("", "other.yml"), self.write("", "notes.txt")
        for verb in VERBS:
            self.assertEqual(self.bash(verb, "--"), OPTIONS[verb])
        self.assertEqual(self.bash(""), {*VERBS, "model.yaml", "other.yml"})
        self.assertEqual(self.bash("--"), OPTIONS["train"] | {"--version"})
        self.assertEqual(self.bash("model.yaml", "--"), OPTIONS["train"])
        self.assertEqual(self.bash("plan", "mod"), {"model.yaml"})
        self.assertEqual(self.bash("evaluate", "--data", ""), {"train", "validation", "test"})
        self.assertEqual(self.bash("evaluate", "--weights", "n"), {"notes.txt"})
        self.assertEqual(self.bash("schema", ""), set())

    @unittest.skipUnless(shutil.which("zsh"), "there is no zsh")
    def test_zsh_completes_verbs_options_and_values(self):
        for verb in VERBS:
            offered = [line for line in self.zsh(verb, "--") if not line.startswith(("1:", "(- *)-h"))]
            names = {re.match(r"(?:\(- \*\)|\*)?(--[a-z-]+)\[", line)[1] for line in offered}
            self.assertEqual(names, OPTIONS[verb], verb)
        self.assertEqual([line.partition(":")[0] for line in self.zsh("")][:len(VERBS)], VERBS)
        self.assertEqual(self.zsh("model.yaml", "--"), self.zsh("train", "--"))
        self.assertIn("--data[train, validation or test]:value:(train validation test)", self.zsh("evaluate", "--"))

    def test_the_man_page_has_each_verb_with_its_options(self):
        page = gzip.decompress((CLI / "trainer.1.gz").read_bytes()).decode().replace("\\-", "-")
        verbs = page.partition("\n.SH VERBS\n")[2].partition("\n.SH ")[0]
        _, *parts = re.split(r"^\.SS (\w+)$", verbs, flags=re.MULTILINE)
        described = dict(zip(parts[::2], parts[1::2]))
        self.assertEqual(list(described), VERBS)
        for verb, text in described.items():
            own = set().union(*map(long_options, re.findall(r"^\.TP\n(.*)", text.replace("\\fB", ""), re.MULTILINE)))
            self.assertEqual(own, OPTIONS[verb] - {"--help"}, verb)
            usage, = re.findall(rf"^\\fBtrainer {verb}\\fR.*", page, re.MULTILINE)
            self.assertEqual(long_options(usage.replace("\\fB", "")), OPTIONS[verb] - {"--help"})

    @unittest.skipUnless(shutil.which("groff"), "there is no groff")
    def test_the_man_page_is_set_without_a_warning(self):
        page = gzip.decompress((CLI / "trainer.1.gz").read_bytes())
        result = subprocess.run(["groff", "-man", "-Tascii", "-P-cbou", "-ww", "-k"], input=page, capture_output=True)
        self.assertEqual(result.stderr.decode(), "")
        self.assertIn("EXIT STATUS", result.stdout.decode())

    def test_the_documentation_names_every_option_of_a_verb(self):
        lines = re.findall(r"^    trainer (.*)$", (launch.ROOT / "docs/cli.md").read_text(), re.MULTILINE)
        shown = {line.split()[0].strip("[]"): long_options(line) for line in lines if not line.startswith("--")}
        self.assertEqual(list(shown), VERBS)
        self.assertEqual(shown, {verb: options - {"--help"} for verb, options in OPTIONS.items()})


if __name__ == "__main__":
    unittest.main()
