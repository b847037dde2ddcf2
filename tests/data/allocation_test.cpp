#include <gtest/gtest.h>

#include "data/loader.h"
#include "data/npy_writer.h"
#include "support/allocations.h"

namespace tessera::data {
namespace {

TEST(Loader, AllocatesNothingAfterTheFirstBatch) {
  config::DataSpec spec;
  spec.npy = {{"x", write_npy<float>("x.npy", "<f4", {100}, std::vector<float>(100))}};
  config::DataSpec random;
  random.random_samples = 100;
  for (const auto& source : {spec, random}) {
    const Dataset dataset(source, {{"x", {}, DType::kBF16}}, 0);
    LoaderOptions options;
    options.schedule.batch_size = options.batch_rows = 8;
    options.shuffle = true;
    Loader loader(dataset, {}, 0, {{"x", {8}, mesh::replicated(1)}}, options);
    std::vector<std::uint16_t> x(8);
    void* to = x.data();
    loader.load(0, 0, {&to, 1});
    loader.load(0, 1, {&to, 1});
    const auto before = test::allocations.load();
    for (std::int64_t epoch = 1; epoch < 4; ++epoch)
      for (std::int64_t step = 0; step < loader.schedule().steps(epoch); ++step) loader.load(epoch, step, {&to, 1});
    EXPECT_EQ(test::allocations.load(), before);
  }
}

}  // namespace
}  // namespace tessera::data
