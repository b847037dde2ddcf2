#pragma once

#include <map>
#include <vector>

#include "partition/program.h"

namespace tessera::partition {

/// One touch of a memory root. Positions count the instructions of all sections in order: prologue, body, epilogues.
struct Access {
  int position = 0;
  bool write = false;
};

/// All instructions of a program in one order, and who touches which memory.
class Accesses {
 public:
  explicit Accesses(Program& program);

  struct Entry {
    Section* section = nullptr;
    int index = 0;  // in the section
  };
  const std::vector<Entry>& instructions() const { return entries_; }
  Instruction& instruction(int position) const {
    const auto& e = entries_[static_cast<std::size_t>(position)];
    return e.section->instructions[static_cast<std::size_t>(e.index)];
  }
  /// In the order of positions; an instruction that reads and writes a root gives a read, then a write.
  const std::vector<Access>& of(int root) const { return by_root_[static_cast<std::size_t>(root)]; }
  /// Whether the outside reads the root after the program (see kept_roots).
  bool kept(int root) const { return kept_[static_cast<std::size_t>(root)]; }
  /// `root` has become a part of `into`: who touches or keeps the one touches or keeps the other.
  void merge(int root, int into);
  /// The instruction at this position, which is about to go, no longer touches the root.
  void forget(int root, int position);
  int body_begin() const { return body_begin_; }
  int body_end() const { return body_end_; }

 private:
  std::vector<Access>& list(int root) { return by_root_[static_cast<std::size_t>(root)]; }

  std::vector<Entry> entries_;
  std::vector<std::vector<Access>> by_root_;
  std::vector<bool> kept_;
  int body_begin_ = 0, body_end_ = 0;
};

/// The sections in order: prologue, body, epilogues.
std::vector<Section*> sections_of(Program& program);

/// Roots that the outside reads after the program, or that live on: outputs, gradients, state, inputs.
std::vector<bool> kept_roots(const Program& program);

/// Takes the marked instructions out of a section.
void erase_marked(Section& section, const std::vector<bool>& marked);

}  // namespace tessera::partition
