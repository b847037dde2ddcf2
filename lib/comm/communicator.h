#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"

namespace tessera::comm {

enum class Reduce : std::uint8_t { kSum, kMax };

/// Calls and bytes by kind, counted from the arguments of the calls. `bytes` is what a rank must receive:
/// all_reduce 2(n-1)/n B, all_gather and reduce_scatter (n-1)/n of the large side, all_to_all (n-1)/n B.
struct Counter {
  std::int64_t calls = 0, bytes = 0;
  bool operator==(const Counter&) const = default;
};
struct Counters {
  Counter all_reduce, reduce_scatter, all_gather, all_to_all, box_exchange;
  bool operator==(const Counters&) const = default;
};

/// A pair of buffers of one collective; see partition::Segment. `count` is elements of `in`.
struct Piece {
  const void* in = nullptr;
  void* out = nullptr;
  std::int64_t count = 0;
};

/// One rectangular piece of a box exchange: a box inside a contiguous local tensor.
struct BoxTransfer {
  int peer = 0;  // rank in this communicator; may be the own one
  Shape tensor;  // local shape of the buffer
  Box box;       // in local indices
};

/// What a rank is doing, for the sentence of a wait that fails: "all_reduce of dense_1/kernel's gradient", 412, 88.
struct Context {
  std::string_view what;
  int instruction = -1;  // -1: of the whole step
  std::int64_t step = 0;
};
/// "all_reduce of dense_1/kernel's gradient (instruction 412, step 88)"; `unknown` without a context.
std::string to_string(const Context* context, const char* unknown = "a collective");

/// Ranks that differ on some mesh axes, in the order of these axes. A group of one is a no-op. All pieces of one call
/// belong to one collective: they are counted as one and need one synchronisation. Every rank of the group gives the
/// same kinds, dtypes and counts in the same order, or it is an Error (internal) that names the ranks. A wait that
/// fails is an Error (peer lost) that names the ranks that did not come.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Sums (or maximises) each element in rank order on one owner, then gathers: the same bits on all ranks.
  /// In place (in == out) or not. f32, f64, i32, i64.
  virtual void all_reduce(const std::vector<Piece>& pieces, DType dtype, Reduce reduce) = 0;
  /// in: size() chunks, rank-major; out: one chunk.
  virtual void reduce_scatter(const std::vector<Piece>& pieces, DType dtype, Reduce reduce) = 0;
  /// in: one chunk; out: size() chunks, rank-major.
  virtual void all_gather(const std::vector<Piece>& pieces, DType dtype) = 0;
  /// in, out: size() chunks; they do not overlap.
  virtual void all_to_all(const std::vector<Piece>& pieces, DType dtype) = 0;
  /// Sends boxes of `in` and receives boxes of `out`. The k-th send to a peer meets its k-th receive from here.
  virtual void box_exchange(const void* in, const std::vector<BoxTransfer>& sends, void* out,
                            const std::vector<BoxTransfer>& receives, DType dtype) = 0;
  virtual void barrier() = 0;
};

/// All ranks of a job: makes communicators, owns the memory that they share, and carries small host messages.
class World {
 public:
  virtual ~World() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string host() const = 0;
  virtual int local_rank() const = 0;  // among the ranks of this host
  virtual int local_size() const = 0;
  /// Whether each rank is a process of its own: only then can it have a GPU of its own.
  virtual bool ranks_are_processes() const { return true; }

  /// `ranks`: world ranks of the own group, in order; every rank of the world calls with its own group (a partition of
  /// the world). Cached by that list.
  virtual Communicator& communicator(const std::vector<std::int64_t>& ranks) = 0;

  /// Memory that collectives run on without a copy, on the device where they do; zeroed; collective; the same size on
  /// all ranks. Lives as long as the world or until the next call.
  virtual void* communication_region(std::int64_t bytes) = 0;

  virtual const Counters& counters() const = 0;

  /// The host's control plane, collective over the world.
  virtual void barrier() = 0;
  virtual std::string broadcast(const std::string& text, int root) = 0;
  virtual std::vector<std::string> gather(const std::string& text) = 0;  // on every rank, by rank
  virtual bool any(bool flag) = 0;  // part of every step: it has a collective's deadline

  /// Device memory in which boxes lie packed while they travel, where ranks share no memory of the host. The caller's.
  virtual void use_exchange_memory(void* memory, std::int64_t bytes) { (void)memory, (void)bytes; }

  /// Says to the ranks of the node that this one has come to a step.
  virtual void begin_step(std::int64_t step) { (void)step; }
  /// Throws Error (peer lost) where a collective that was queued on a device has failed.
  virtual void check_queued() {}
  /// Looks at collectives that have been queued on a device and have not ended after so many seconds. Throws Error
  /// (peer lost) where they cannot end any more or the deadline has passed. Where collectives run on the host there are
  /// none.
  virtual void look_at_queued(double seconds) { (void)seconds; }

  /// Ends the job on all ranks with this exit code, after the sentence is printed, once, with "rank 5 on node07: " in
  /// front. Does not return. (On threads: throws Error with both.)
  [[noreturn]] virtual void abort(int exit_code, const std::string& sentence) = 0;

  /// What the next collectives are part of; the struct stays the caller's. nullptr: unknown.
  void set_context(const Context* context) { context_ = context; }
  const Context* context() const { return context_; }

  /// Seconds that a collective or any() may wait for its peers. The rest of the control plane has ten times as long.
  void set_deadline(double seconds) { deadline_ = seconds; }
  double deadline() const { return deadline_; }

 private:
  const Context* context_ = nullptr;
  double deadline_ = 120;
};

std::unique_ptr<World> make_self_world();

/// Runs `body` on `ranks` threads of this process, each with its own World; rethrows the first exception after all have
/// ended (a failing rank wakes the others, which throw PeerLost).
void run_on_threads(int ranks, const std::function<void(World&)>& body);

struct MpiOptions {
  /// Treats every so many ranks of a host as a node of their own, which runs the paths between nodes on one machine.
  /// 0: the environment's TESSERA_RANKS_PER_NODE, or all ranks of a host.
  int ranks_per_node = 0;
};

/// MPI_COMM_WORLD. Initialises MPI (thread level serialised) and finalises it at the end of the object, unless an
/// exception ends it. Throws Error (config) where the launcher started another number of ranks than MPI sees, or where
/// shared memory is too small.
std::unique_ptr<World> make_mpi_world(int* argc, char*** argv, const MpiOptions& options = {});

/// "Open MPI v4.1.4, ..." up to the first comma. Needs no initialised MPI.
std::string mpi_version();

}  // namespace tessera::comm
