"""Every mistake ends the job on all ranks, once said, with its place and its exit code; nothing hangs."""

import concurrent.futures
import dataclasses
import math
import struct
import subprocess
import tempfile
import unittest

import launch
from files import npy, safetensors

BASE = """\
name: bad
model:
  inputs: {x: {shape: [8]}}
  layers:
    - Dense: {name: dense_1, units: 16, activation: relu}
    - Dense: {name: dense_2, units: 4}
distribution:
  ModelParallel:
    mesh: {shape: [-1], axis_names: [model]}
    layout_map:
      dense_1/kernel: [null, model]
compile:
  optimizer: sgd
  loss: mse
data:
  train: {random: {samples: 32}}
fit:
  batch_size: 8
"""
MESH = "{shape: [-1], axis_names: [model]}"
RULE = "dense_1/kernel: [null, model]"
DATA = "train: {random: {samples: 32}}"
MODEL_PARALLEL = BASE[BASE.index("  ModelParallel"):BASE.index("compile")]

CONFIG, DATA_CODE, CHECKPOINT, MEMORY, NOT_FINITE = 2, 3, 4, 5, 6
FEW, MOST = (1, 4), (1, 2, 4, 8)


@dataclasses.dataclass
class Bad:
    """`old` of BASE becomes `new`; the trainer started with `words` must say `sentence` and return `code`.

    " ... " in the sentence may be anything, {folder} is the folder of the case."""
    old: str
    new: str
    sentence: str
    words: tuple = ("train", "config.yaml")
    code: int = CONFIG
    ranks: tuple = FEW
    files: dict = dataclasses.field(default_factory=dict)
    before: tuple = ()
    within: tuple = ()


def planned(ranks):
    return "validate", "config.yaml", "--ranks", str(ranks)


# Every row of Keras's distribution API that is an error here.
KERAS = [
    # DeviceMesh
    Bad(MESH, "{shape: [], axis_names: [model]}", "config.yaml:9:11: a mesh needs a shape and axis names, as in"),
    Bad(MESH, "{shape: [-1], axis_names: []}", "config.yaml:9:11: a mesh needs a shape and axis names, as in"),
    Bad(MESH, "{shape: [1, -1], axis_names: [model]}",
        "config.yaml:9:11: mesh shape (1, -1) has 2 sizes, but axis_names [model] has 1", ranks=MOST),
    Bad(MESH, "{shape: [3], axis_names: [model]}", 
        "config.yaml:9:11: mesh shape (3) needs 3 ranks, but there", ranks=MOST),
    Bad(MESH, "{shape: [16], axis_names: [model]}", "start it with -np 16, or change the shape", ranks=MOST),
    Bad(MESH, "{shape: [3, -1], axis_names: [batch, model]}",
        "config.yaml:9:11: mesh shape (3, -1) needs a multiple of 3 ranks", ranks=MOST),
    Bad(MESH, "{shape: [1, -1], axis_names: [model, model]}", "config.yaml:9:11: mesh axis 'model' is named twice"),
    Bad(MESH, "{shape: [0], axis_names: [model]}", "config.yaml:9:11: mesh axis 'model' has size 0"),
    Bad(MESH, "{shape: [-2], axis_names: [model]}", "config.yaml:9:11: mesh axis 'model' has size -2"),
    Bad(MESH, "{shape: [-1, -1], axis_names: [batch, model]}", "config.yaml:9:11: mesh shape (-1, -1) has two -1"),
    # TensorLayout
    Bad(RULE, "dense_1/kernel: [null, modle]",
        "config.yaml:11:23: layout_map rule 'dense_1/kernel': the mesh has no axis 'modle'; did you mean 'model'?",
        ranks=MOST),
    Bad(RULE, "dense_1/kernel: [model, model]",
        "config.yaml:11:23: layout_map rule 'dense_1/kernel' uses the axis 'model' twice"),
    Bad(RULE, "dense_1/kernel: [model]",
        "config.yaml:11:23: layout_map rule 'dense_1/kernel' has 1 entry, but dense_1/kernel (8, 16) has 2: write one"),
    Bad(RULE, "dense_1/kernel: [null, model, null]",
        "config.yaml:11:23: layout_map rule 'dense_1/kernel' has 3 entries, but dense_1/kernel (8, 16) has 2"),
    Bad(RULE, "dense_1/kernel: [null, model]",
        "config.yaml:11:23: dense_1/kernel (8, 16): dimension 1 (16) does not divide over axis 'model' (3); legal "
        "sizes: 1, 2, 4, 8, 16", planned(3), ranks=MOST),
    # LayoutMap
    Bad(RULE, RULE + "\n      dense_2/.*: [null, model]\n      .*_2/kernel: [null, model]",
        "config.yaml:13:7: 2 layout_map rules match 'dense_2/kernel': "
        "'dense_2/.*' (line 12) and '.*_2/kernel' (line 13)"),
    Bad(RULE, "dense_1: [null, model]",
        "config.yaml:11:7: layout_map rule 'dense_1' matches no variable: a rule must match the whole path, and it "
        "matches only a part of 'dense_1/bias'; write '.*dense_1.*'"),
    Bad(RULE, RULE + "\n      dense_1/kernel: [null, null]",
        "config.yaml:12:7: key 'dense_1/kernel' is given twice; the first is at 11:7"),
    Bad(RULE, "'dense_(1/kernel': [null, model]",
        "config.yaml:11:7: layout_map rule 'dense_(1/kernel' is not a regular expression (RE2): missing )"),
    Bad(RULE, "dense_1/kernle: [null, model]",
        "config.yaml:11:7: layout_map rule 'dense_1/kernle' matches no variable; did you mean 'dense_1/kernel'?",
        ranks=MOST),
    Bad(RULE, RULE + "\n    output_layout_map: {dense_3: [null, null]}",
        "config.yaml:12:25: output_layout_map rule 'dense_3' names no layer; did you mean 'dense_"),
    Bad(RULE, RULE + "\n    data_layout_map: {z: [null, null]}",
        "config.yaml:12:23: data_layout_map rule 'z' names no input"),
    Bad(RULE, "'.*': [null, model]",
        "config.yaml:11:13: layout_map rule '.*' has 2 entries, but dense_1/bias (16) has 1"),
    # DataParallel, ModelParallel
    Bad(MODEL_PARALLEL, "  DataParallel: {mesh: {shape: [1, -1], axis_names: [batch, model]}}\n",
        "config.yaml:8:24: DataParallel takes a mesh of one axis ... use ModelParallel"),
    Bad(MODEL_PARALLEL, "  DataParallel: {layout_map: {}}\n",
        "config.yaml:8:18: unknown key 'layout_map' in DataParallel; it takes mesh"),
    Bad(MODEL_PARALLEL, "  ModelParallel: {mesh: {shape: [-1], axis_names: [model]}}\n",
        "config.yaml:8:18: ModelParallel needs 'layout_map', as in"),
    Bad("    mesh: " + MESH + "\n", "", "config.yaml:9:5: ModelParallel needs 'mesh', as in"),
    Bad(RULE, RULE + "\n    auto_shard_dataset: true",
        "config.yaml:12:5: unknown key 'auto_shard_dataset' in ModelParallel"),
    Bad(RULE, RULE + "\n    batch_dim_name: data",
        "config.yaml:12:21: batch_dim_name: the mesh has no axis 'data' (axes: model)"),
]

CONFIGS = [
    Bad("units: 16", "unit: 16", "config.yaml:5:30: unknown key 'unit' in Dense; did you mean 'units'?"),
    Bad("units: 16", "units: 0", "config.yaml:5:37: Dense: units must be positive, found 0"),
    Bad("relu", "relo", "config.yaml:5:53: there is no activation 'relo'; did you mean 'relu'?"),
    Bad("Dense: {name: dense_1", "Dence: {name: dense_1",
        "config.yaml:5:7: there is no layer 'Dence'; did you mean 'Dense'?"),
    Bad("name: dense_2", "name: dense_1", "config.yaml:6:21: the name 'dense_1' is taken, at config.yaml:5:21"),
    Bad("name: dense_2,", "name: dense_2, inputs: [z],", "config.yaml:6:39: no layer or input is named 'z'"),
    Bad("optimizer: sgd", "optimizer: agad", "config.yaml:13:14: there is no optimizer 'agad'"),
    Bad("optimizer: sgd", "optimizer: {SGD: {clipnorm: 1, clipvalue: 1}}",
        "config.yaml:13:15: SGD: only one of clipnorm, clipvalue and global_clipnorm can be given"),
    Bad("loss: mse", "loss: mes", "config.yaml:14:9: there is no loss 'mes'"),
    Bad("  loss: mse\n", "", "config.yaml:13:3: compile needs 'loss'"),
    Bad("fit:", "fit:\n  learning_rate: 0.1", "config.yaml:18:3: unknown key 'learning_rate' in fit"),
    Bad("batch_size: 8", "batch_size: -8", "config.yaml:18:15: fit: batch_size must be positive and below 1000000000, found -8"),
    Bad("samples: 32", "samples: many", "config.yaml:16:29: samples must be a whole number"),
    Bad("name: bad", "name: [bad", "not YAML", ranks=MOST),
    Bad("name: bad", "version: 2", "config.yaml:1:10: version must be 1, found 2"),
    Bad("name: bad", "device: cuda", "config.yaml:1:9: rank 0 on ... has no GPU: ... use device: cpu",
        before=("env", "CUDA_VISIBLE_DEVICES=")),
    Bad("name: bad", "hardware: cry", "config.yaml:1:11: there is no hardware profile or file 'cry'"),
    Bad("compile:\n  optimizer: sgd\n  loss: mse\n", "", "config.yaml:1:1: there is no `compile:`"),
    Bad("data:\n  " + DATA + "\n", "", "config.yaml:1:1: there is no `data: train:`"),
]

WORDS = [
    Bad("", "", "'trian' is neither a verb (train, plan", ("trian", "config"), ranks=MOST),
    Bad("", "", "nowhere.yaml", ("train", "nowhere.yaml"), ranks=MOST),
    Bad("", "", "CONFIG is required", ("plan",)),
    Bad("", "", "verify does not take '--stpes'; did you mean '--steps'?", ("verify", "config.yaml", "--stpes", "3")),
    Bad("", "", "--steps: must be a positive whole number, found '0'", ("verify", "config.yaml", "--steps", "0")),
    Bad("", "", "--data: trian not in {", ("evaluate", "config.yaml", "--data", "trian")),
    Bad("", "", "--ranks: must be a positive whole number, found '-3'", ("plan", "config.yaml", "--ranks", "-3")),
    Bad("", "", "--set fit.epoch=3: unknown key 'epoch' in fit; did you mean 'epochs'?",
        ("train", "config.yaml", "--set", "fit.epoch=3"), ranks=MOST),
    Bad("", "", "--set fit: expected key=value, as in --set fit.epochs=1", ("train", "config.yaml", "--set", "fit")),
    Bad("", "", "is a folder", ("train", ".")),
]


def data(x, y=npy((32, 4))):
    """Replaces the random data by files."""
    files = {name: content for name, content in (("x.npy", x), ("y.npy", y)) if content is not None}
    return dict(old=DATA, new="train: {npy: {x: x.npy, y: y.npy}}", files=files, code=DATA_CODE)


X = npy((32, 8))
FILES = [
    Bad(sentence="config.yaml:16:20: {folder}/x.npy is not a file", before=("sh", "-c", 'mkfifo x.npy; exec "$@"', "sh"),
        **data(None)),
    Bad(sentence="config.yaml:16:20: {folder}/x.npy: No such file or directory; is the path right?", ranks=MOST,
        **data(None)),
    Bad(sentence="config.yaml:16:20: {folder}/x.npy has the shape (32, 9), samples of (9), but "
                 "'x' of the model has samples of (8)",
        **data(npy((32, 9)))),
    Bad(sentence="config.yaml:16:30: 'y' has 31 rows", **data(X, npy((31, 4)))),
    Bad(sentence="config.yaml:16:20: {folder}/x.npy has no rows", **data(npy((0, 8)))),
    Bad(sentence="config.yaml:16:20: {folder}/x.npy holds one number", **data(npy(()))),
    Bad(sentence="config.yaml:16:20: {folder}/x.npy should have 1024 bytes", **data(X[:-100])),
    Bad(sentence="config.yaml:16:20: {folder}/x.npy is cut off", **data(X[:40])),
    Bad(sentence="config.yaml:16:20: {folder}/x.npy is not a .npy file", **data(b"x" * 200)),
    Bad(sentence="config.yaml:16:20: {folder}/x.npy is in Fortran order", **data(X.replace(b"False", b"True "))),
    Bad(sentence="config.yaml:16:20: {folder}/x.npy is big-endian", **data(X.replace(b"<f4", b">f4"))),
    Bad(sentence="config.yaml:16:20: {folder}/x.npy has elements of type '<c8'", **data(npy((32, 4), "<c8"))),
    Bad(sentence="config.yaml:16:20: {folder}/x.npy holds Python objects", **data(npy((32, 8), "|O4"))),
    Bad("loss: mse", "loss: mse\n  metrics: [acuracy]", "config.yaml:15:13: there is no metric 'acuracy'"),
    Bad("name: bad", "name: bad\nmodel_: 1", "config.yaml:2:1: unknown key 'model_'"),
]

LABELS = b"".join((12 if row == 5 else 0).to_bytes(4, "little") for row in range(32))
FILES.append(Bad(sentence="step 1, 'loss': label 12 in row ", words=("train", "config.yaml", "--set", "fit.shuffle=false", "--set",
                                                     "compile.loss=SparseCategoricalCrossentropy"),
                 **data(X, npy((32,), "<i4", LABELS))))

LOAD = "  load_weights: w.safetensors\n  layers:"
WEIGHTS = [
    Bad("  layers:", LOAD, "config.yaml:4:17: {folder}/w.safetensors: cannot be opened", code=CHECKPOINT),
    Bad("  layers:", LOAD, "config.yaml:4:17: {folder}/w.safetensors: ", code=CHECKPOINT,
        files={"w.safetensors": safetensors("dense_1/kernel", (8, 16))[:-4]}),
    Bad("  layers:", LOAD, "w.safetensors: tensor 'dense_1/kernel' is (2, 2), the model's is (8, 16)", code=CHECKPOINT,
        files={"w.safetensors": safetensors("dense_1/kernel", (2, 2))}),
    Bad("  layers:", LOAD, "w.safetensors: has no tensor 'dense_1/kernel'; did you mean 'dense_9/kernel'?",
        planned(2), CHECKPOINT, files={"w.safetensors": safetensors("dense_9/kernel", (8, 16))}),
    Bad("", "", "there are no weights: runs/bad/final.safetensors is not there", ("evaluate", "config.yaml"),
        CHECKPOINT),
    Bad("", "", "w.safetensors: cannot be opened", ("predict", "config.yaml", "--weights", "w.safetensors"),
        CHECKPOINT),
]

MEMORY_NEEDS = [
    Bad("shape: [8]", "shape: [1048576]", "a rank needs ... The largest buffers: ... dense_1/kernel ", code=MEMORY,
        words=("train", "config.yaml", "--set", "model.layers.0.Dense.units=1048576")),
    Bad("name: bad", "hardware: a100-80",
        "a rank needs 2.00 TiB ... 128 ranks (axis 'model' of 128) fit, with ... The largest buffers: ", code=MEMORY,
        words=("plan", "config.yaml", "--ranks", "4", "--set", "model.inputs.x.shape=[1048576]", "--set",
               "model.layers.0.Dense.units=1048576", "--set", "distribution.ModelParallel.batch_dim_name=null")),
]

NAN = [
    Bad(sentence="step 1: the loss is not finite, and neither is 'x' in the data of this batch",
        **{**data(npy((32, 8), elements=struct.pack("<256f", *[math.nan] * 256))), "code": NOT_FINITE}),
    Bad("optimizer: sgd", "optimizer: {SGD: {learning_rate: 1e30}}",
        "step 2: the loss is not finite; the first variable that isn't either is 'dense_1/kernel'", code=NOT_FINITE,
        words=("train", "config.yaml", "--set", "fit.epochs=20")),
]

OUTPUTS = [
    Bad("", "", "can't write to standard output; is the disk full?", planned(2), DATA_CODE,
        within=("sh", "-c", 'exec "$@" >/dev/full', "sh")),
    Bad("", "", "runs/bad/final.safetensors", code=CHECKPOINT, ranks=(1,),
        within=("sh", "-c", 'ulimit -f 128; exec "$@"', "sh"),
        words=("train", "config.yaml", "--set", "model.layers.0.Dense.units=2048")),
    Bad("name: bad", "name: bad\noutput_dir: file", "can't create file/bad: Not a directory", code=DATA_CODE,
        files={"file": b""}),
    Bad("name: bad", "name: bad\noutput_dir: /proc/none", "can't create /proc/none/bad", code=DATA_CODE),
]


# A launcher that MPI does not understand, and ranks that are not equal.
LAUNCHES = [
    Bad("", "", "OMP_NUM_THREADS of rank 0 asks for more than 1024 threads", within=("env", "OMP_NUM_THREADS=100000")),
    Bad("", "", "TESSERA_RANKS_PER_NODE is '2x'", ranks=(2,), within=("env", "TESSERA_RANKS_PER_NODE=2x")),
    Bad("", "", "OMPI_COMM_WORLD_SIZE is 16, but MPI sees ", within=("env", "OMPI_COMM_WORLD_SIZE=16"), ranks=MOST),
    Bad("", "", " has threads ", ranks=(2, 4),
        within=("sh", "-c", 'OMP_NUM_THREADS=$((OMPI_COMM_WORLD_RANK % 2 + 1)) exec "$@"', "sh")),
]


def tmpfs(size):
    """Words in front of a command that give it a folder `full` of so many bytes, which no one else sees."""
    return "unshare", "-rm", "sh", "-c", f'mkdir full && mount -t tmpfs -o size={size} none full && exec "$@"', "sh"


CAN_MOUNT = subprocess.run([*tmpfs("1m"), "true"], cwd=tempfile.mkdtemp(), capture_output=True).returncode == 0
FULL_DISKS = [
    Bad("name: bad", "name: bad\noutput_dir: full", "full/bad/", code=DATA_CODE, before=tmpfs("4k")),
    Bad("name: bad", "name: bad\noutput_dir: full", "full/bad/final.safetensors", code=CHECKPOINT, before=tmpfs("1m"),
        words=("train", "config.yaml", "--set", "model.layers.0.Dense.units=65536")),
]


class Errors(launch.Case):
    """One test a table; four launches at a time, as a start is mostly waiting."""

    def launch(self, number, bad, ranks):
        folder = self.folder / f"{number}_{ranks}"
        folder.mkdir()
        self.assertIn(bad.old, BASE)
        (folder / "config.yaml").write_text(BASE.replace(bad.old, bad.new, 1) if bad.old else BASE)
        for name, content in bad.files.items():
            (folder / name).write_bytes(content)
        return launch.run(0 if ranks == 1 else ranks, *bad.words, folder=folder, before=bad.before, within=bad.within,
                          limit=30)

    def check(self, table):
        jobs = [(number, bad, ranks) for number, bad in enumerate(table) for ranks in bad.ranks]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for (number, bad, ranks), result in zip(jobs, pool.map(lambda job: self.launch(*job), jobs)):
                with self.subTest(ranks=ranks, case=bad.new or bad.words):
                    self.assertEqual((len(result.errors), result.code), (1, bad.code), str(result))
                    sentence = bad.sentence.replace("{folder}", str(self.folder / f"{number}_{ranks}"))
                    for part in sentence.split(" ... "):
                        self.assertIn(part, result.errors[0])

    def test_keras_errors(self):
        self.check(KERAS)

    def test_configs(self):
        self.check(CONFIGS)

    def test_command_lines(self):
        self.check(WORDS)

    def test_data_files(self):
        self.check(FILES)

    def test_weights(self):
        self.check(WEIGHTS)

    def test_memory(self):
        self.check(MEMORY_NEEDS)

    def test_not_finite(self):
        self.check(NAN)

    def test_outputs(self):
        self.check(OUTPUTS)

    @unittest.skipUnless(CAN_MOUNT, "no right to mount a small disk")
    def test_full_disks(self):
        self.check(FULL_DISKS)

    def test_a_full_disk_under_metrics(self):
        for ranks in (0, 4):
            folder = self.folder / str(ranks)
            (folder / "runs/bad").mkdir(parents=True)
            (folder / "runs/bad/metrics.jsonl").symlink_to("/dev/full")
            (folder / "config.yaml").write_text(BASE)
            result = launch.run(ranks, "train", "config.yaml", folder=folder)
            self.assertEqual((len(result.errors), result.code), (1, DATA_CODE), str(result))
            self.assertIn("can't write runs/bad/metrics.jsonl: No space left on device", result.errors[0])

    def test_closed_standard_streams_are_no_files_of_the_run(self):
        self.write(BASE)
        self.run_ok(0, "train", "config.yaml", within=("sh", "-c", 'exec "$@" 2>&-', "sh"))
        self.assertEqual(len(self.events("bad", "step")), 4)
        lines = (self.folder / "runs/bad/metrics.jsonl").read_text().splitlines()
        self.assertEqual([line[0] for line in lines], ["{"] * len(lines))

    def test_a_disk_that_fills_while_training(self):
        if not CAN_MOUNT:
            self.skipTest("no right to mount a small disk")
        self.write(BASE)
        result = launch.run(0, "train", "config.yaml", "--set", "output_dir=full", "--set", "fit.epochs=100000",
                            folder=self.folder, before=tmpfs("40k"))
        self.assertEqual((len(result.errors), result.code), (1, DATA_CODE), str(result))
        self.assertIn("can't write full/bad/metrics.jsonl: No space left on device", result.errors[0])

    def test_launches(self):
        self.check(LAUNCHES)

    def test_srun_without_pmix_starts_processes_that_are_alone(self):
        self.write(BASE)
        jobs = [launch.Job(0, ["train", "config.yaml"], folder=self.folder,
                           env={"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": str(rank)}) for rank in range(4)]
        results = [job.wait(30) for job in jobs]
        self.assertEqual([r.code for r in results], [CONFIG] * 4)
        spoken, = [error for r in results for error in r.errors]
        self.assertIn("SLURM_STEP_NUM_TASKS is 4, but MPI sees 1 rank: ", spoken)
        self.assertIn("srun --mpi=pmix", spoken)

    def test_help_and_version_are_said_once(self):
        for word in ("--version", "--help"):
            result = launch.run(4, word)
            self.assertEqual(result.code, 0, str(result))
            self.assertEqual(result.stdout.count("oneDNN " if word == "--version" else "SUBCOMMAND"), 1, str(result))


if __name__ == "__main__":
    unittest.main()
