#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace tessera::cuda_emulator {

/// Bytes from one rank to another.
struct Ring {
  static constexpr std::size_t kSize = std::size_t(1) << 15;
  std::atomic<std::uint64_t> head, tail;  // written and read so far
  std::array<char, kSize> bytes;
};

/// The memory that the processes of a communicator share: a ring for each ordered pair, a place to post for each rank.
class SharedRanks {
 public:
  static constexpr int kMaxRanks = 64;
  using Note = std::array<std::int64_t, 4>;

  SharedRanks(std::string name, int rank, int size);
  ~SharedRanks();
  SharedRanks(const SharedRanks&) = delete;
  bool ok() const { return table_ != nullptr; }

  Ring& ring(int from, int to);

  /// An exchange of notes: every rank posts once a round, and may read the others' when all have posted.
  void post(const Note& note);
  bool all_posted() const;
  Note posted_by(int rank) const;

  /// A rank that found calls which differ, or -1. Told to all, as the others might only wait.
  int found_by() const { return table_->found_by.load() - 1; }
  void tell_found();

  /// Nobody else will come; the memory lives as long as it is mapped.
  void unlink();

 private:
  struct Post {
    std::atomic<std::uint64_t> round;
    std::array<Note, 2> notes;  // by round: who is slow still reads the last ones
  };
  struct Table {
    std::atomic<int> found_by;  // 1 + the rank
    std::array<Post, kMaxRanks> posts;
  };

  std::string name_;
  int rank_, size_;
  std::size_t bytes_;
  Table* table_ = nullptr;  // followed by the rings
  std::uint64_t round_ = 0;
};

}  // namespace tessera::cuda_emulator
