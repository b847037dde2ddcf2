#include "comm/mpi/messages.h"

#include <algorithm>
#include <chrono>
#include <sched.h>
#include <thread>
#include <utility>

namespace tessera::comm {

MPI_Request& Messages::next(int peer) {
  peers_.push_back(peer);
  auto& request = requests_.emplace_back(MPI_REQUEST_NULL);
  missing_.reserve(requests_.capacity());  // look() allocates nothing
  return request;
}

void Messages::send(const void* data, std::int64_t bytes, int rank, int tag) {
  if (bytes == 0) return;
  check(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, rank, tag, comm_, &next(rank)), "MPI_Isend");
}

void Messages::receive(void* data, std::int64_t bytes, int rank, int tag) {
  if (bytes == 0) return;
  check(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, rank, tag, comm_, &next(rank)), "MPI_Irecv");
}

void Messages::add(MPI_Request request) { next(kEveryone) = request; }

void Messages::wait(const char* what) {
  const int spins = spin_ ? 2000 : 0;
  const int yields = spin_ ? 200 : 10;
  constexpr auto kNap = std::chrono::microseconds(20);
  constexpr auto kLook = std::chrono::milliseconds(20);
  const auto done = [&] {
    int flag = 0;
    check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &flag, MPI_STATUSES_IGNORE), "MPI_Testall");
    return flag != 0;
  };
  const auto start = std::chrono::steady_clock::now();
  auto looked = start;
  bool waits = false;
  for (int tries = 0; !done(); ++tries) {
    if (tries < spins) continue;
    if (tries < spins + yields) {
      sched_yield();
      continue;
    }
    std::this_thread::sleep_for(kNap);
    const auto now = std::chrono::steady_clock::now();
    if (now - looked < kLook) continue;
    looked = now;
    if (!std::exchange(waits, true)) watch_.wait_outside(true);
    look(what, std::chrono::duration<double>(now - start).count());
  }
  if (waits) watch_.wait_outside(false);
  requests_.clear();
  peers_.clear();
}

void Messages::look(const char* what, double seconds) {
  missing_.clear();
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    int flag = 0;
    check(MPI_Request_get_status(requests_[i], &flag, MPI_STATUS_IGNORE), "MPI_Request_get_status");
    const bool known = std::find(missing_.begin(), missing_.end(), peers_[i]) != missing_.end();
    if (flag == 0 && peers_[i] != kEveryone && !known) missing_.push_back(peers_[i]);
  }
  std::sort(missing_.begin(), missing_.end());
  watch_.look(what, seconds, missing_, watch_.first_dead(), true);
}

}  // namespace tessera::comm
