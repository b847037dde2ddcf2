#include "nccl_shared.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace tessera::cuda_emulator {

SharedRanks::SharedRanks(std::string name, int rank, int size)
    : name_(std::move(name)),
      rank_(rank),
      size_(size),
      bytes_(sizeof(Table) + sizeof(Ring) * std::size_t(size * size)) {
  const int file = shm_open(name_.c_str(), O_CREAT | O_RDWR, 0600);
  if (file < 0) return;
  if (ftruncate(file, off_t(bytes_)) == 0) {
    void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (p != MAP_FAILED) table_ = static_cast<Table*>(p);
  }
  close(file);
}

SharedRanks::~SharedRanks() {
  unlink();
  if (table_ != nullptr) munmap(table_, bytes_);
}

void SharedRanks::tell_found() {
  int nobody = 0;
  table_->found_by.compare_exchange_strong(nobody, rank_ + 1);
}

void SharedRanks::unlink() {
  if (!name_.empty()) shm_unlink(std::exchange(name_, "").c_str());
}

Ring& SharedRanks::ring(int from, int to) { return reinterpret_cast<Ring*>(table_ + 1)[from * size_ + to]; }

void SharedRanks::post(const Note& note) {
  Post& own = table_->posts[std::size_t(rank_)];
  own.notes[++round_ % 2] = note;
  own.round.store(round_, std::memory_order_release);
}

bool SharedRanks::all_posted() const {
  for (int r = 0; r < size_; ++r)
    if (table_->posts[std::size_t(r)].round.load(std::memory_order_acquire) < round_) return false;
  return true;
}

SharedRanks::Note SharedRanks::posted_by(int rank) const { return table_->posts[std::size_t(rank)].notes[round_ % 2]; }

}  // namespace tessera::cuda_emulator
