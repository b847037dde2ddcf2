#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "core/attributes.h"
#include "core/dtype.h"
#include "core/shape.h"
#include "graph/graph.h"
#include "mesh/layout.h"

namespace tessera::partition {

/// A pool is one allocation of the runtime. Offsets are multiples of kAlignment and equal on all ranks.
enum class Pool : std::uint8_t {
  kState,     // variables, slots, metric states: live as long as the plan
  kArena,     // everything else of a step
  kComm,      // what collectives read and write: lies in the shared window (CPU) or registered memory (NCCL)
  kStaging,   // host memory of the loader
  kScratch,   // working memory of the kernels, which run one at a time
  kUploads,   // on a GPU: its copy of the inputs in the staging pool, at their offsets; elsewhere empty
  kSnapshot,  // host memory where a checkpoint's share of this rank waits to be written; empty where none is planned
};
inline constexpr int kPoolCount = 7;
inline constexpr std::int64_t kAlignment = 256;
constexpr std::int64_t aligned(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::string to_string(Pool pool);

/// A tensor of a program.
struct ProgramValue {
  std::string name;  // "dense_1/matmul", "grad dense_1/kernel", ...
  Shape shape;       // global
  DType dtype = DType::kF32;
  mesh::Layout layout;
  Shape local;             // what a rank holds
  std::int64_t bytes = 0;  // of the local part, unrounded
  Pool pool = Pool::kArena;
  std::int64_t offset = -1;  // in the pool
  /// A part of another value's bytes: it has no memory of its own (a slot of a bucket, a leading slice, a reshape).
  int inside = -1;
  std::int64_t inside_offset = 0;  // bytes
  /// It begins where the rank's own box begins in the value that it is inside of: a slice along the leading dimension.
  /// The offset differs from rank to rank, so no collective touches it.
  bool slice = false;
  /// Of an input in the body: bytes from one micro-batch's part to the next.
  std::int64_t micro_stride = 0;
  int state = -1;  // index in Plan::state, if it lives there
};

enum class CollectiveKind : std::uint8_t { kAllReduce, kReduceScatter, kAllGather, kAllToAll, kBoxExchange };
std::string to_string(CollectiveKind kind);

/// Part of a collective: `count` elements a rank of `in`; `out` may be `in` for an all-reduce.
/// reduce_scatter: in n chunks, rank-major; out one. all_gather: in one chunk; out n. all_to_all: n chunks both.
/// box_exchange: both as their layouts say.
struct Segment {
  int in = -1, out = -1;
};

struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  std::vector<mesh::Axis> axes;  // major to minor: the order of the ranks
  graph::ReduceKind reduce = graph::ReduceKind::kSum;
  DType dtype = DType::kF32;
  std::vector<Segment> segments;
};

struct KernelCall {
  std::string kernel;  // lib/device/README.md
  std::vector<int> inputs, outputs;
  Attributes attributes;
};

enum class Stream : std::uint8_t { kCompute, kComm };
enum class Phase : std::uint8_t { kPrologue, kForward, kBackward, kGradient, kUpdate };
std::string to_string(Phase phase);

struct Instruction {
  std::variant<KernelCall, CollectiveCall> what;
  Stream stream = Stream::kCompute;
  /// The micro-batch that it works on, where that isn't the one in hand (the prologue walks over all of them); -1: in
  /// hand.
  int micro_batch = -1;
  /// Instructions of the same section and the other stream that must have ended. Within a stream the order is the
  /// list's.
  std::vector<int> waits;
  int stage = 0;
  Phase phase = Phase::kForward;
  std::string layer;   // for messages and the profile
  std::string reason;  // of a collective: the edge that caused it
  int edge = -1;       // index into Plan::edges, for --explain
  std::int64_t flops = 0;
  std::int64_t moved_bytes = 0;  // bytes that a rank receives (collectives)
};

/// A straight list. At its end all streams join.
struct Section {
  std::vector<Instruction> instructions;
};

struct ProgramOutput {
  graph::GraphOutput::Kind kind;
  std::string name;
  int value = -1;
};

/// prologue, then body once a micro-batch, then the epilogue. train has "apply", and "accumulate" where the optimizer
/// accumulates gradients; evaluate and predict have none.
struct Program {
  std::string name;
  std::int64_t micro_batches = 1;
  std::int64_t batch_rows = 0;  // padded rows of the whole batch
  std::vector<ProgramValue> values;
  Section prologue, body;
  std::map<std::string, Section> epilogues;
  std::vector<int> inputs;  // values that the loader fills: whole batch, micro-batch-major
  /// The loader's part of the staging pool: the next batch, and what it reads through.
  std::int64_t prefetch_offset = 0, prefetch_bytes = 0;
  std::vector<ProgramOutput> outputs;
  std::map<std::string, int> gradients;  // by path of the variable: the value when the body has ended
  std::int64_t predicted_fs = 0;         // of one step, by the cost model
};

/// A variable, slot or metric state on this plan's mesh.
struct StateBuffer {
  graph::Variable variable;
  Shape shape;  // global
  DType dtype = DType::kF32;
  mesh::Layout layout;
  Shape local;
  std::int64_t bytes = 0;
  Pool pool = Pool::kState;  // kComm if collectives read it where it lies (gathered parameters)
  std::int64_t offset = -1;
};

/// One edge of the graph on which something had to move, and why: feeds `plan --explain`.
struct EdgeReport {
  std::string from, to;         // names of graph nodes
  std::string program;          // "train", "train/apply", ...
  int node = -1, operand = -1;  // solver node
  std::string from_layout, to_layout;
  std::string chosen;    // strategy of the consumer, by axis
  std::string rejected;  // the cheapest alternative and what it would have cost more; filled on request
};

struct Plan {
  mesh::DeviceMesh mesh;
  std::vector<mesh::Axis> batch_axes;
  std::string hardware;  // name of the profile
  std::string device;    // "cuda (auto: every rank has a GPU)": what it is for, and why
  std::vector<StateBuffer> state;
  /// train, evaluate, predict; "train.metrics" and "evaluate.metrics" hand out the sums of the metric states of all
  /// ranks.
  std::map<std::string, Program> programs;
  std::vector<EdgeReport> edges;
  std::vector<std::string> warnings;
  std::string solver;                        // "joint" or "axis by axis", with table sizes
  std::int64_t pool_bytes[kPoolCount] = {};  // by Pool
  /// Part of the communication region in which boxes lie packed on their way between devices.
  std::int64_t exchange_offset = 0, exchange_bytes = 0;
};

}  // namespace tessera::partition
