#include "traffic.h"

#include <atomic>

namespace tessera::cuda_emulator {
namespace {

struct Counter {
  std::atomic<std::uint64_t> value{0};
  // One thread adds: no need of an atomic addition.
  void add(std::uint64_t n) { value.store(value.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
};

struct Counters {
  Counter launches, requested_read, requested_written, unique_read, unique_written;
};
Counters counters;

}  // namespace

void add_launch() { counters.launches.add(1); }

void add_traffic(const Traffic::Bytes& requested, const Traffic::Bytes& unique) {
  counters.requested_read.add(requested.read);
  counters.requested_written.add(requested.written);
  counters.unique_read.add(unique.read);
  counters.unique_written.add(unique.written);
}

Traffic traffic() {
  const Counters& c = counters;
  return {c.launches.value,
          {c.requested_read.value, c.requested_written.value},
          {c.unique_read.value, c.unique_written.value}};
}

void reset_traffic() {
  for (Counter* c : {&counters.launches, &counters.requested_read, &counters.requested_written, &counters.unique_read,
                     &counters.unique_written})
    c->value = 0;
}

}  // namespace tessera::cuda_emulator
