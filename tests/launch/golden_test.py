"""The plans of the examples, line by line.

A plan that has changed on purpose: TESSERA_UPDATE_GOLDEN=1 python3 tests/launch/golden_test.py writes the files anew;
git diff then shows what the change did.
"""

import collections
import json
import os
import pathlib
import re
import unittest

import launch

GOLDEN = pathlib.Path(__file__).parent / "golden"


def ranks_of(config):
    """As its first comment starts it."""
    return int(re.match(r"# mpirun -np (\d+)", config.read_text())[1])


def sections(program):
    yield "prologue", program["prologue"]
    yield "body", program["body"]
    for name, section in program["epilogues"].items():
        yield name, section


def line(name, item, *without):
    return f"{name} {json.dumps({k: v for k, v in item.items() if k not in without} if without else item)}"


def with_names(instruction, values):
    """Values by name, so that one more value changes no other line."""
    named = dict(instruction)
    for key in ("inputs", "outputs"):
        if key in named:
            named[key] = [values[v]["name"] for v in named[key]]
    if "segments" in named:
        named["segments"] = [[values[v]["name"] for v in segment] for segment in named["segments"]]
    return named


def lines_of(plan):
    """All of a plan, an item a line."""
    yield from (line(key, plan[key]) for key in plan if key not in ("state", "programs", "edges"))
    yield from (line("edge", edge) for edge in plan["edges"])
    yield from (line(f"state {s['path']}", s, "path") for s in plan["state"])
    for name, program in plan["programs"].items():
        values = program["values"]
        yield line(name, program, "values", "inputs", "outputs", "gradients", "prologue", "body", "epilogues")
        yield from (line(f"{name} value {v['name']}", v, "name") for v in values)
        yield from (line(f"{name} output {values[o['value']]['name']}", o, "value") for o in program["outputs"])
        for section, instructions in sections(program):
            yield from (line(f"{name} {section}", with_names(i, values), "waits") for i in instructions)


def collectives(program):
    """How often a step calls each kind of collective before its update, by phase."""
    calls = [i for _, section in sections(program) for i in section if "collective" in i and i["phase"] != "update"]
    return dict(collections.Counter(f"{i['phase']} {i['collective']}" for i in calls))


# What one pinned output does to an example's step. The loss is one all-reduce, forward.
PINS = [
    # Free, dense_2's product is scattered and the rest done by rows; pinned whole, it is summed as Megatron does.
    ("mlp_megatron", 4, "{}", {"forward reduce_scatter": 1, "backward all_gather": 1, "forward all_reduce": 1}),
    ("mlp_megatron", 4, "{dense_2: [null, null]}", {"forward all_reduce": 1}),
    ("mlp_megatron", 4, "{dense_1: [null, model]}",
     {"forward reduce_scatter": 1, "backward all_gather": 1, "forward all_reduce": 1}),
    ("mlp_megatron", 4, "{dense_2: [null, model]}",
     {"forward reduce_scatter": 1, "forward all_to_all": 1, "forward all_reduce": 1, "backward all_to_all": 1,
      "backward all_gather": 1, "gradient all_gather": 1, "gradient all_reduce": 1}),
    ("seed_mesh_2x4", 8, "{}", {"forward all_reduce": 2, "gradient all_gather": 1, "gradient all_reduce": 1}),
    ("seed_mesh_2x4", 8, "{dense_1: [batch, model]}",
     {"forward all_reduce": 2, "gradient all_gather": 1, "gradient all_reduce": 1}),
    # The activation of dense_1 gathered, which the plan avoids.
    ("seed_mesh_2x4", 8, "{dense_1: [batch, null]}", {"forward all_gather": 1, "forward all_reduce": 1}),
]


class Golden(launch.Case):
    def plan(self, config, ranks, *words):
        return self.run_ok(0, "plan", launch.CONFIGS / config, "--ranks", ranks, "--json", *words).json()

    def test_examples(self):
        configs = sorted(launch.CONFIGS.glob("*.yaml"))
        self.assertGreaterEqual(len(configs), 5)
        for config in configs:
            with self.subTest(config=config.stem):
                ranks = ranks_of(config)
                found = "\n".join(lines_of(self.plan(config.name, ranks))) + "\n"
                file = GOLDEN / f"{config.stem}_np{ranks}.txt"
                if os.environ.get("TESSERA_UPDATE_GOLDEN"):
                    file.write_text(found)
                self.assertMultiLineEqual(file.read_text(), found)

    def test_a_pinned_output_has_the_collectives_that_it_asks_for_and_is_never_cheaper(self):
        free = {}
        for config, ranks, pin, expected in PINS:
            with self.subTest(config=config, pin=pin):
                key = "distribution.ModelParallel.output_layout_map"
                plan = self.plan(f"{config}.yaml", ranks, "--set", f"{key}={pin}")
                train = plan["programs"]["train"]
                self.assertEqual(collectives(train), expected)
                self.assertLessEqual(free.setdefault(config, train["predicted_fs"]), train["predicted_fs"])


if __name__ == "__main__":
    unittest.main()
