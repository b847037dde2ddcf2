#!/usr/bin/env python3
"""cli_files.py TRAINER CLI_MD FOLDER: writes the man page (trainer.1.gz) and the completions for bash (trainer) and zsh
(_trainer). Verbs and options are those that `trainer VERB --help` prints, the rest is the text of docs/cli.md."""

import gzip
import pathlib
import re
import subprocess
import sys
import typing

YAML = "*.(yaml|yml)"
FOLDERS_AND = {"--resume": ("auto", "never")}  # words that the option takes besides a folder


class Option(typing.NamedTuple):
    names: tuple  # ("-h", "--help"), of a positional ("CONFIG",)
    value: str    # as in --help: "", "TEXT ...", "INT:POSITIVE", "TEXT:{gpu,cpu}"
    text: str

    @property
    def choices(self):
        return self.value.partition("{")[2].rstrip("}").split(",") if "{" in self.value else []

    @property
    def repeats(self):
        return self.value.endswith("...")

    @property
    def placeholder(self):
        """For a person: N, KEY=VALUE, gpu|cpu."""
        if self.choices:
            return "|".join(self.choices)
        if self.names[-1] in FOLDERS_AND:
            return "|".join([*FOLDERS_AND[self.names[-1]], "DIR"])
        if not self.value or not self.names[-1].startswith("-"):
            return ""
        return {"--set": "KEY=VALUE", "--weights": "FILE"}.get(self.names[-1], "N")


class Verb(typing.NamedTuple):
    name: str
    about: str
    positionals: list
    options: list


def read_help(text):
    """The sections of a --help: {"Options": [Option, ...], ...}."""
    sections, items = {}, []
    for line in text.splitlines():
        if re.fullmatch(r"[A-Z]\w*:", line):
            items = sections.setdefault(line[:-1], [])
        elif re.match(r"  \S", line):
            head, _, description = line.strip().partition("  ")
            names, _, value = head.partition(" ")
            items.append(Option(tuple(names.split(",")), value, description.strip()))
        elif re.match(r" {8,}\S", line):  # the description of a head that fills its column
            items[-1] = items[-1]._replace(text=f"{items[-1].text} {line.strip()}".strip())
    return sections


def read_command_line(trainer):
    """Options of the program itself, and its verbs."""
    def ask(*words):
        return read_help(subprocess.run([trainer, *words, "--help"], check=True, capture_output=True, text=True).stdout)

    top = ask()
    verbs = []
    for item in top["Subcommands"]:
        found = ask(item.names[0])
        verbs.append(Verb(item.names[0], item.text, found.get("Positionals", []), found["Options"]))
    return top["Options"], verbs


# ---- the man page

def roff(text):
    """Text of a line of Markdown: code and emphasis bold, links as their text."""
    text = text.replace("\\", "\\e")
    text = re.sub(r"\[([^]]*)\]\(([^)]*)\)", r"\1 (\2)", text)
    text = re.sub(r"`([^`]*)`", lambda m: "\\fB" + m[1].replace("-", "\\-") + "\\fR", text)
    text = re.sub(r"\*\*([^*]*)\*\*", r"\\fB\1\\fR", text)
    return "\\&" + text if text[:1] in ".'" else text


def roff_text(markdown):
    """Paragraphs and tables: the first column of a table heads what the others say."""
    out = []
    for block in re.split(r"\n\s*\n", markdown.strip()):
        lines = block.splitlines()
        prose = [roff(line) for line in lines if not line.startswith("|")]
        out += [".PP", *prose] if prose else []
        for row in [line.strip("|").split("|") for line in lines if line.startswith("|")][2:]:
            head, *cells = [cell.strip() for cell in row]
            out += [".TP", roff(f"**{head.strip('`')}**"), roff("; ".join(cells))]
    return out


def sections_of(markdown):
    """{heading: text}; what stands before the first heading, without the synopsis, is under ""."""
    _, *parts = re.split(r"^#+ (.*)$", markdown, flags=re.MULTILINE)
    found = dict(zip(parts[2::2], parts[3::2]))
    found[""] = re.sub(r"^ {4}.*\n", "", parts[1], flags=re.MULTILINE)
    return found


def synopsis(verb):
    words = [f"\\fBtrainer {verb.name}\\fR"]
    for positional in verb.positionals:
        word = f"\\fI{positional.names[0]}\\fR"
        words.append(word if "REQUIRED" in positional.value else f"[{word}]")
    for option in verb.options:
        if "--help" not in option.names:
            name = option.names[-1].replace("-", "\\-")
            value = f" \\fI{option.placeholder}\\fR" if option.value else ""
            words.append(f"[\\fB{name}\\fR{value}]" + "..." * option.repeats)
    return [" ".join(words), ".br"]


def described(option):
    names = ", ".join(f"\\fB{n}\\fR" for n in option.names).replace("-", "\\-")
    return [".TP", names + (f" \\fI{option.placeholder}\\fR" if option.placeholder else ""), roff(option.text)]


def man_page(version, options, verbs, markdown):
    text = sections_of(markdown)
    what = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", text[""], re.MULTILINE))
    intro, _, after = re.split(r"((?:^\|.*\n)+)", text.pop(""), maxsplit=1, flags=re.MULTILINE)
    out = [f'.TH TRAINER 1 "" "Tessera {version}" "User Commands"', ".SH NAME",
           "trainer \\- train a Keras-style model on a device mesh, one MPI rank a device",
           ".SH SYNOPSIS", ".nh", ".ad l"]
    for verb in verbs:
        out += synopsis(verb)
    out += ["\\fBtrainer \\-\\-version\\fR", ".hy", ".ad b"]
    out += [".SH DESCRIPTION", *roff_text(intro), *roff_text(after), ".SH OPTIONS"]
    for option in options:
        out += described(option)
    out.append(".SH VERBS")
    for verb in verbs:
        out += [f".SS {verb.name}", roff(f"{verb.about[0].upper()}{verb.about[1:]}.")]
        if verb.name in what:
            out += [".PP", roff(f"{what[verb.name][0].upper()}{what[verb.name][1:]}.")]
        for option in [*verb.positionals, *(o for o in verb.options if "--help" not in o.names)]:
            out += described(option)
    for heading, body in text.items():
        heading = heading.partition(",")[0]
        heading = {"Exit codes": "Exit status", "The run's folder": "Files"}.get(heading, heading)
        out += [f".SH {heading.upper()}", *roff_text(body)]
    out += [".SH EXAMPLES", ".nf", "mpirun \\-np 2 trainer /usr/share/tessera/examples/digits_mlp.yaml",
            "trainer plan config.yaml \\-\\-ranks 8 \\-\\-explain", "mpirun \\-np 8 trainer verify config.yaml", ".fi",
            ".SH SEE ALSO", "\\fBmpirun\\fR(1), /usr/share/doc/tessera"]
    return "\n".join(out) + "\n"


# ---- completion

BASH = r"""# Completion of trainer for bash. Made from `trainer VERB --help`.
_trainer_words() {  # of a verb: its options
  case $1 in
@words@
  esac
}

_trainer() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb=train verbs='@verbs@'
  [[ " $verbs " != *" ${COMP_WORDS[1]} "* ]] || verb=${COMP_WORDS[1]}
  COMPREPLY=()
  case $before in
@values@
  esac
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$([ "$COMP_CWORD" != 1 ] || echo '@options@') $(_trainer_words "$verb")" -- "$word"))
    return
  fi
  compopt -o filenames 2>/dev/null
  [ "$COMP_CWORD" != 1 ] || COMPREPLY=($(compgen -W "$verbs" -- "$word"))
  [[ " @no_config@ " == *" $verb "* ]] ||
    COMPREPLY+=($(compgen -f -X '!*.yaml' -- "$word") $(compgen -f -X '!*.yml' -- "$word") $(compgen -d -- "$word"))
}
complete -F _trainer trainer
"""


def bash_value(option):
    """The case of the word that follows an option."""
    name, choices = option.names[-1], " ".join(option.choices or FOLDERS_AND.get(option.names[-1], ()))
    words = f'compgen -W \'{choices}\' -- "$word"'
    files = f'compgen -{"d" if name in FOLDERS_AND else "f"} -- "$word"'
    if name in FOLDERS_AND or option.placeholder == "FILE":
        found = f"$({words}) $({files})" if choices else f"$({files})"
        return f"    {name}) compopt -o filenames 2>/dev/null; COMPREPLY=({found}); return ;;"
    return f"    {name}) COMPREPLY=($({words})); return ;;" if choices else f"    {name}) return ;;"


def fill(template, **parts):
    return re.sub(r"@(\w+)@", lambda m: parts[m[1]], template)


def long_names(options):
    return " ".join(name for option in options for name in option.names if name.startswith("--"))


def bash_completion(options, verbs):
    values = {o.names[-1]: bash_value(o) for verb in verbs for o in verb.options if o.value}
    return fill(BASH, verbs=" ".join(v.name for v in verbs), options=long_names(options),
                words="\n".join(f"    {v.name}) echo '{long_names(v.options)}' ;;" for v in verbs),
                values="\n".join([*values.values(), "    =) return ;;"]),
                no_config=" ".join(v.name for v in verbs if not v.positionals))


ZSH = """#compdef trainer
# Completion of trainer for zsh. Made from `trainer VERB --help`.
_trainer() {
  local -a verbs=(
@verbs@
  )
  if (( CURRENT == 2 )); then
    [[ $PREFIX == -* ]] || _describe -t verbs verb verbs
    _arguments \\
@options@
      '1:config:_files -g "@yaml@"'
    return
  fi
  if (( ${verbs[(I)${words[2]}:*]} )); then
    shift words
    (( CURRENT-- ))
  fi
  case $words[1] in
@cases@
  esac
}
_trainer "$@"
"""


def zsh_option(option):
    def quoted(text):
        return text.replace("'", "'\\''").replace(":", "\\:").replace("[", "\\[").replace("]", "\\]")

    if not option.names[0].startswith("-"):
        return f"""'1:config:_files -g "{YAML}"'"""
    if "--help" in option.names:
        return f"'(- *)'{{-h,--help}}'[{quoted(option.text)}]'"
    action = ""
    if option.choices:
        action = f":value:({' '.join(option.choices)})"
    elif option.names[-1] in FOLDERS_AND:
        words = " ".join(FOLDERS_AND[option.names[-1]])
        action = f':folder:{{_alternative "words\\:word\\:({words})" "folders\\:folder\\:_files -/"}}'
    elif option.value:
        action = f":{option.placeholder}:" + "_files" * (option.placeholder == "FILE")
    return f"'{'*' * option.repeats}{option.names[-1]}[{quoted(option.text)}]{action}'"


def zsh_completion(options, verbs):
    def arguments(items, indent):
        return " \\\n".join(" " * indent + zsh_option(item) for item in items)

    cases = []
    for verb in [*verbs[1:], verbs[0]]:  # a config without a verb is trained
        head = "*" if verb is verbs[0] else verb.name
        items = arguments([*verb.options, *verb.positionals], 8)
        cases.append(f"    {head})  # {verb.name}\n      _arguments \\\n{items} ;;")
    return fill(ZSH, verbs="\n".join(f"    '{v.name}:{v.about}'" for v in verbs), cases="\n".join(cases), yaml=YAML,
                options=arguments(options, 6) + " \\")


def main(trainer, cli_md, folder):
    version = subprocess.run([trainer, "--version"], check=True, capture_output=True, text=True).stdout.split()[1]
    options, verbs = read_command_line(trainer)
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    page = man_page(version, options, verbs, pathlib.Path(cli_md).read_text())
    (folder / "trainer.1.gz").write_bytes(gzip.compress(page.encode(), 9, mtime=0))
    (folder / "trainer").write_text(bash_completion(options, verbs))
    (folder / "_trainer").write_text(zsh_completion(options, verbs))


if __name__ == "__main__":
    main(*sys.argv[1:])
