#pragma once

#include <map>
#include <string>
#include <vector>

#include "partition/program.h"
#include "partition/reshard.h"

namespace tessera::partition {

/// Bytes of the local part of a value.
std::int64_t local_bytes(const Shape& local, DType dtype);

/// The value whose memory a value uses: itself, or what it is inside of.
int root_of(const Program& program, int value);

/// Whether a value lies at an offset that differs from rank to rank.
bool is_slice(const Program& program, int value);

/// Bytes that a rank receives in a collective, all segments together: all_reduce 2(n-1)/n of them, reduce_scatter and
/// all_to_all (n-1)/n, all_gather n-1 times the own part. Not of a box exchange.
std::int64_t received_bytes(const Program& program, const mesh::DeviceMesh& mesh, const CollectiveCall& call);

/// Values that an instruction reads and writes. An all-reduce in place does both.
std::vector<int> reads_of(const Instruction& instruction);
std::vector<int> writes_of(const Instruction& instruction);

/// Appends values and instructions to a program; turns moves into kernels and collectives.
class ProgramBuilder {
 public:
  ProgramBuilder(Plan& plan, Program& program) : plan_(plan), program_(program) {}

  Program& program() { return program_; }
  Plan& plan() { return plan_; }
  const mesh::DeviceMesh& mesh() const { return plan_.mesh; }
  const ProgramValue& value(int id) const { return program_.values[static_cast<std::size_t>(id)]; }
  ProgramValue& value(int id) { return program_.values[static_cast<std::size_t>(id)]; }

  /// Where the next instructions go.
  struct Place {
    Section* section = nullptr;
    Phase phase = Phase::kForward;
    std::string layer;
    int micro_batch = -1;
  };
  Place place;

  int add_value(const std::string& name, const Shape& shape, DType dtype, const mesh::Layout& layout,
                Pool pool = Pool::kArena);
  /// The same bytes as another value, seen with another shape or layout.
  int add_view(int of, const std::string& name, const Shape& shape, DType dtype, const mesh::Layout& layout);
  /// The value of a state buffer; made at the first call. Throws (internal) for an unknown path.
  int state_value(const std::string& path);

  Instruction& kernel(const std::string& name, std::vector<int> inputs, std::vector<int> outputs,
                      Attributes attributes = {});

  /// In place, over `axes`; marks the value's memory as communication region. Copies first where it may not be written.
  int all_reduce(int value, std::vector<mesh::Axis> axes, graph::ReduceKind kind, const mesh::Layout& after,
                 const std::string& reason, int edge = -1);

  /// Carries a value through moves.
  int apply(int value, const std::vector<Move>& moves, const std::string& reason, int edge = -1);

 private:
  int move(int value, const Move& move, const std::string& reason, int edge);
  int to_comm(int value);
  Instruction& collective(CollectiveKind kind, const std::vector<mesh::Axis>& axes, int in, int out,
                          const std::string& reason, int edge);
  bool leads(int value, int dim) const;
  int pack(int value, int dim, std::int64_t parts);
  int unpack(int value, int dim, std::int64_t parts, const mesh::Layout& after);

  Plan& plan_;
  Program& program_;
  std::map<std::string, int> state_values_;
};

}  // namespace tessera::partition
