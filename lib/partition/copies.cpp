#include <algorithm>

#include "partition/accesses.h"
#include "partition/passes.h"
#include "partition/program_builder.h"

namespace tessera::partition {
namespace {

/// Whether a copy at `position` may become a second name of one memory: nobody changes one while the other is still
/// read.
bool may_share(const std::vector<Access>& from, const std::vector<Access>& to, int position, bool from_kept,
               bool to_kept) {
  const auto last_read = [&](const std::vector<Access>& list) {
    int last = -1;
    for (const auto& a : list)
      if (!a.write && a.position > position) last = std::max(last, a.position);
    return last;
  };
  const auto first_write = [&](const std::vector<Access>& list) {
    for (const auto& a : list)
      if (a.write && a.position > position) return a.position;
    return -1;
  };
  const int write_from = first_write(from), write_to = first_write(to);
  if (write_to >= 0 && (from_kept || last_read(from) >= write_to)) return false;
  if (write_from >= 0 && (to_kept || last_read(to) >= write_from)) return false;
  // Whoever wrote `to` before the copy wrote something that the copy would have replaced.
  return std::none_of(to.begin(), to.end(), [&](const Access& a) { return a.position < position; });
}

/// Whether what is copied at `position` may be made in its place at once: from the first touch of `from` to the copy
/// nobody touches `to`, and `from` is made in the section of the copy and is over after it.
bool may_be_made_there(const std::vector<Access>& from, const std::vector<Access>& to, int position,
                       int section_begin) {
  if (from.empty() || from.front().position < section_begin || from.back().position != position) return false;
  const int first = from.front().position;
  return std::none_of(to.begin(), to.end(),
                      [&](const Access& a) { return a.position >= first && a.position != position; });
}

}  // namespace

void elide_copies(Program& program) {
  Accesses accesses(program);
  const auto count = accesses.instructions().size();
  std::vector<bool> gone(count, false);
  for (std::size_t p = 0; p < count; ++p) {
    const int position = static_cast<int>(p);
    const auto* kernel = std::get_if<KernelCall>(&accesses.instruction(position).what);
    if (kernel == nullptr || kernel->kernel != "copy") continue;
    const int a = kernel->inputs[0], b = kernel->outputs[0];
    const int from = root_of(program, a);
    auto& target = program.values[static_cast<std::size_t>(b)];
    auto& source = program.values[static_cast<std::size_t>(from)];
    if (from == b) continue;
    const auto become_one = [&](int root, int into) {
      accesses.forget(root, position);
      accesses.forget(into, position);
      accesses.merge(root, into);
      gone[p] = true;
    };
    if (target.state >= 0 && from == a && source.state < 0 && source.bytes == target.bytes &&
        source.pool == Pool::kArena && !accesses.kept(from)) {
      const auto& entry = accesses.instructions()[p];
      if (may_be_made_there(accesses.of(from), accesses.of(b), position, position - entry.index)) {
        source.inside = b;
        become_one(from, b);
      }
      continue;
    }
    if (target.inside >= 0 || target.state >= 0) continue;
    if (target.bytes != program.values[static_cast<std::size_t>(a)].bytes) continue;
    if (target.pool == Pool::kComm && is_slice(program, a)) continue;
    const bool fixed = source.state >= 0 || source.pool == Pool::kStaging;
    if (fixed && target.pool != source.pool && target.pool == Pool::kComm) continue;
    if (!may_share(accesses.of(from), accesses.of(b), position, accesses.kept(from), accesses.kept(b))) continue;
    target.inside = a;
    if (!fixed && target.pool == Pool::kComm) source.pool = Pool::kComm;
    become_one(b, from);
  }
  std::size_t p = 0;
  for (auto* section : sections_of(program)) {
    const std::vector<bool> part(gone.begin() + static_cast<std::ptrdiff_t>(p),
                                 gone.begin() + static_cast<std::ptrdiff_t>(p + section->instructions.size()));
    p += section->instructions.size();
    erase_marked(*section, part);
  }
  for (auto& v : program.values) {  // a view lives where its root lives
    if (v.inside < 0) continue;
    const auto root = root_of(program, static_cast<int>(&v - program.values.data()));
    v.pool = program.values[static_cast<std::size_t>(root)].pool;
  }
}

}  // namespace tessera::partition
