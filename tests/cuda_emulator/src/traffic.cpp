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
  Counter launches, products, copies, collectives, requested_read, requested_written, unique_read, unique_written,
      copied_read, copied_written;
};
Counters counters;

}  // namespace

void add_launch() { counters.launches.add(1); }
void add_product() { counters.products.add(1); }
void add_collective() { counters.collectives.add(1); }

void add_copy(const Traffic::Bytes& copied) {
  counters.copies.add(1);
  counters.copied_read.add(copied.read);
  counters.copied_written.add(copied.written);
}

void add_traffic(const Traffic::Bytes& requested, const Traffic::Bytes& unique) {
  counters.requested_read.add(requested.read);
  counters.requested_written.add(requested.written);
  counters.unique_read.add(unique.read);
  counters.unique_written.add(unique.written);
}

Traffic traffic() {
  const Counters& c = counters;
  return {c.launches.value,
          c.products.value,
          c.copies.value,
          c.collectives.value,
          {c.requested_read.value, c.requested_written.value},
          {c.unique_read.value, c.unique_written.value},
          {c.copied_read.value, c.copied_written.value}};
}

void reset_traffic() {
  Counters& c = counters;
  for (Counter* counter : {&c.launches, &c.products, &c.copies, &c.collectives, &c.requested_read, &c.requested_written,
                           &c.unique_read, &c.unique_written, &c.copied_read, &c.copied_written})
    counter->value = 0;
}

}  // namespace tessera::cuda_emulator
