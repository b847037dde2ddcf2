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
    int section_number = 0;
  };
  const std::vector<Entry>& instructions() const { return entries_; }
  Instruction& instruction(int position) const {
    const auto& e = entries_[static_cast<std::size_t>(position)];
    return e.section->instructions[static_cast<std::size_t>(e.index)];
  }
  /// In the order of positions; an instruction that reads and writes a root gives a read, then a write.
  std::vector<Access>& of(int root) { return by_root_[static_cast<std::size_t>(root)]; }
  const std::vector<Access>& of(int root) const { return by_root_[static_cast<std::size_t>(root)]; }
  int body_begin() const { return body_begin_; }
  int body_end() const { return body_end_; }

 private:
  std::vector<Entry> entries_;
  std::vector<std::vector<Access>> by_root_;
  int body_begin_ = 0, body_end_ = 0;
};

/// The sections in order: prologue, body, epilogues.
std::vector<Section*> sections_of(Program& program);

/// Roots that the outside reads after the program, or that live on: outputs, gradients, state, inputs.
std::vector<bool> kept_roots(const Program& program);

/// Takes the marked instructions out of a section.
void erase_marked(Section& section, const std::vector<bool>& marked);

}  // namespace tessera::partition
