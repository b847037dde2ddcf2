#include <algorithm>
#include <list>

#include "partition/accesses.h"
#include "partition/passes.h"
#include "partition/program_builder.h"

namespace tessera::partition {
namespace {

constexpr std::int64_t kSmallBytes = 4096;

const CollectiveCall* as_collective(const Instruction& i) { return std::get_if<CollectiveCall>(&i.what); }

std::int64_t bytes_of(const Program& program, const CollectiveCall& call) {
  std::int64_t bytes = 0;
  for (const auto& s : call.segments) bytes += program.values[static_cast<std::size_t>(s.in)].bytes;
  return bytes;
}

/// Collectives that wait to be sent together, until somebody touches their memory or the bucket is full.
struct Bucket {
  Instruction instruction;
  std::vector<int> roots;  // ascending
  std::int64_t bytes = 0;
};

class Packer {
 public:
  Packer(Program& program, const mesh::DeviceMesh& mesh, std::int64_t limit)
      : program_(program), mesh_(mesh), limit_(limit) {}

  void run(Section& section) {
    out_.clear();
    for (auto& i : section.instructions) {
      flush_touched(i);
      const auto* call = as_collective(i);
      if (call == nullptr || !mergeable(i, *call)) {
        out_.push_back(std::move(i));
        continue;
      }
      add(std::move(i));
    }
    while (!open_.empty()) flush(open_.begin());
    section.instructions = std::move(out_);
  }

 private:
  bool mergeable(const Instruction& i, const CollectiveCall& call) const {
    if (call.kind == CollectiveKind::kBoxExchange || call.kind == CollectiveKind::kAllToAll) return false;
    return i.phase == Phase::kGradient || bytes_of(program_, call) <= kSmallBytes;
  }

  static bool same_kind(const Instruction& a, const Instruction& b) {
    const auto &x = *as_collective(a), &y = *as_collective(b);
    return x.kind == y.kind && x.axes == y.axes && x.reduce == y.reduce && x.dtype == y.dtype;
  }

  void add(Instruction i) {
    const auto& call = *as_collective(i);
    const auto bytes = bytes_of(program_, call);
    auto it = std::find_if(open_.begin(), open_.end(), [&](const Bucket& b) { return same_kind(b.instruction, i); });
    if (it != open_.end() && it->bytes + bytes > limit_) {
      flush(it);
      it = open_.end();
    }
    if (it == open_.end()) {
      open_.push_back({std::move(i), {}, bytes});
      it = std::prev(open_.end());
    } else {
      auto& into = std::get<CollectiveCall>(it->instruction.what);
      into.segments.insert(into.segments.end(), call.segments.begin(), call.segments.end());
      it->instruction.reason += "; " + i.reason;
      it->bytes += bytes;
    }
    for (const auto& s : as_collective(it->instruction)->segments) {
      it->roots.push_back(root_of(program_, s.in));
      it->roots.push_back(root_of(program_, s.out));
    }
    std::sort(it->roots.begin(), it->roots.end());
    it->roots.erase(std::unique(it->roots.begin(), it->roots.end()), it->roots.end());
  }

  void flush_touched(const Instruction& i) {
    auto values = reads_of(i);
    const auto writes = writes_of(i);
    values.insert(values.end(), writes.begin(), writes.end());
    for (auto it = open_.begin(); it != open_.end();) {
      const auto touched = std::any_of(values.begin(), values.end(), [&](int v) {
        return std::binary_search(it->roots.begin(), it->roots.end(), root_of(program_, v));
      });
      it = touched ? flush(it) : std::next(it);
    }
  }

  std::list<Bucket>::iterator flush(std::list<Bucket>::iterator it) {
    it->instruction.moved_bytes = received_bytes(program_, mesh_, *as_collective(it->instruction));
    out_.push_back(std::move(it->instruction));
    return open_.erase(it);
  }

  Program& program_;
  const mesh::DeviceMesh& mesh_;
  std::int64_t limit_;
  std::list<Bucket> open_;
  std::vector<Instruction> out_;
};

}  // namespace

void pack_collectives(Program& program, const mesh::DeviceMesh& mesh, std::int64_t bucket_bytes) {
  Packer packer(program, mesh, bucket_bytes);
  for (auto* section : sections_of(program)) packer.run(*section);
}

}  // namespace tessera::partition
