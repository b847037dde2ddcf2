#!/usr/bin/env python3
"""scripts/kernel_registers.py [--arch sm_90] [--jobs N] [--print]: registers, shared memory and spills of every CUDA kernel.

Compiles lib/device/cuda/*.cu as the build does with `nvcc -Xptxas -v`, writes the table of docs/kernels.md (--print: only
prints it) and exits 1 if a kernel spills. Needs nvcc (CUDA_HOME, /usr/local/cuda or the PATH), no GPU; some minutes of CPU.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs/kernels.md"
BEGIN, END = "<!-- registers -->\n", "<!-- end registers -->\n"
HEAD = "| file | kernel | variants | registers | shared memory, bytes | stack, bytes | spilled, bytes |\n|---|---|---|---|---|---|---|\n"

ENTRY = re.compile(
    r"Compiling entry function '(?P<name>\w+)'.*?"
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads.*?"
    r"Used (?P<registers>\d+) registers(?P<rest>[^\n]*)",
    re.DOTALL,
)


def find_nvcc():
    for home in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        if home and (nvcc := pathlib.Path(home) / "bin/nvcc").exists():
            return str(nvcc)
    return shutil.which("nvcc") or sys.exit("there is no nvcc: set CUDA_HOME")


def ptxas_lines(nvcc, arch, source):
    with tempfile.TemporaryDirectory() as folder:
        command = [nvcc, f"-arch={arch}", "-std=c++20", "-O3", "-cubin", "--expt-relaxed-constexpr", "-DNDEBUG",
                   "-DFMT_USE_CONSTEXPR=1", "-DFMT_CONSTEVAL=", f"-I{ROOT / 'lib'}", "-Xptxas=-v", "-o", f"{folder}/x", str(source)]
        result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{result.stderr}")
    return result.stderr


def plain_name(symbol):
    """Of the kernel, without namespaces, template arguments and parameters."""
    name = subprocess.run(["c++filt", symbol], capture_output=True, text=True, check=True).stdout
    name = name.replace("(anonymous namespace)::", "").removeprefix("void ")
    return re.match(r"[\w:]+", name)[0].split("::")[-1]


def span(numbers):
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} - {high}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--print", action="store_true")
    args = parser.parse_args()
    nvcc = find_nvcc()
    sources = sorted((ROOT / "lib/device/cuda").glob("*.cu"))
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        texts = list(pool.map(lambda source: ptxas_lines(nvcc, args.arch, source), sources))

    lines, spilled = [], []
    for source, text in zip(sources, texts):
        kernels = collections.defaultdict(list)
        for entry in ENTRY.finditer(text):
            shared = re.search(r"(\d+) bytes smem", entry["rest"])
            spills = int(entry["stores"]) + int(entry["loads"])
            kernels[plain_name(entry["name"])].append(
                (int(entry["registers"]), int(shared[1]) if shared else 0, int(entry["stack"]), spills))
            if spills:
                spilled.append(f"{source.name}: {entry['name']} spills {spills} bytes")
        if not kernels:
            sys.exit(f"{source.name}: nvcc told of no kernel:\n{text}")
        for name, variants in sorted(kernels.items()):
            columns = [span(column) for column in zip(*variants)]
            lines.append(f"| {source.name} | `{name}` | {len(variants)} | {' | '.join(columns)} |\n")

    table = HEAD + "".join(lines)
    if args.print:
        print(table, end="")
    else:
        before, rest = DOCUMENT.read_text().split(BEGIN)
        DOCUMENT.write_text(before + BEGIN + table + END + rest.split(END)[1])
    print("\n".join(spilled) or "no kernel spills", file=sys.stderr)
    return 1 if spilled else 0


if __name__ == "__main__":
    sys.exit(main())
