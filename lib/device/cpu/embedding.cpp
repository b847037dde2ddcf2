#include <algorithm>
#include <atomic>
#include <cstring>

#include "device/cpu/context.h"
#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"
#include "device/table_part.h"

namespace tessera::device::cpu {
namespace {

/// Own row of an id, or -1.
std::int64_t row_of(const TablePart& part, std::int32_t id) {
  const auto r = id - part.start;
  return r >= 0 && r < part.rows ? r : -1;
}

}  // namespace

std::unique_ptr<Kernel> make_embedding(const KernelSpec& spec, Context& context) {
  require_counts(spec, 2, 1);
  const auto table = table_part(spec, spec.inputs[0]);
  const auto lookups = require_lookups(spec, table, spec.inputs[1], spec.outputs[0]);
  const auto ids = lookups.count;
  return kernel_of([=, threads = context.threads](const Args& args) {
    const auto* id = args.in<std::int32_t>(1);
    std::atomic<std::int64_t> wrong{ids};  // the first id outside the table
    parallel_for(threads, ids, row_grain(table.cols), [&](std::int64_t begin, std::int64_t end) {
      for (auto k = begin; k < end; ++k) {
        auto* y = args.out(0) + k * table.cols;
        if (const auto r = row_of(table, id[k]); r >= 0) {
          std::copy_n(args.in(0) + r * table.cols, table.cols, y);
          continue;
        }
        std::fill_n(y, table.cols, 0.0F);
        if (id[k] >= 0 && id[k] < table.global) continue;
        for (auto seen = wrong.load(); k < seen && !wrong.compare_exchange_weak(seen, k);) {
        }
      }
    });
    if (const auto k = wrong.load(); k < ids) throw Error(ExitCode::kData, complaint(table, lookups, k, id[k]));
  });
}

// Each thread has every so many-th row of the table and goes through all ids: a row's contributions come in the order
// of the ids, whatever the number of threads.
std::unique_ptr<Kernel> make_embedding_backward(const KernelSpec& spec, Context& context) {
  require_counts(spec, 2, 1);
  const auto table = table_part(spec, spec.outputs[0]);
  const auto ids = require_lookups(spec, table, spec.inputs[0], spec.inputs[1]).count;
  return kernel_of([=, accumulate = flag(spec.attributes, "accumulate"), threads = context.threads](const Args& args) {
    const auto* id = args.in<std::int32_t>(0);
    const auto* dy = args.in(1);
    auto* dtable = args.out(0);
    if (!(accumulate && args.params.micro_batch > 0))
      parallel_for(threads, table.rows * table.cols, kGrain * 8,
                   [&](std::int64_t begin, std::int64_t end) { std::fill(dtable + begin, dtable + end, 0.0F); });
    const auto parts = std::clamp<std::int64_t>(ids * table.cols / kGrain, 1, threads);
    parallel_for(threads, parts, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t k = 0; k < ids; ++k) {
        const auto r = row_of(table, id[k]);
        if (r < 0 || r % parts < first || r % parts >= last) continue;
        auto* to = dtable + r * table.cols;
        const auto* from = dy + k * table.cols;
        for (std::int64_t c = 0; c < table.cols; ++c) to[c] += from[c];
      }
    });
  });
}

}  // namespace tessera::device::cpu
