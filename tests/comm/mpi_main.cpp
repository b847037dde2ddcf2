#include "comm/mpi_main.h"

#include <cstdio>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace tessera::comm {
namespace {

World* the_world = nullptr;

/// Only rank 0 tells of the tests; the failures of all ranks are printed in the order of the ranks after each test.
class Failures : public ::testing::EmptyTestEventListener {
 public:
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    text_ +=
        fmt::format("[Rank {}/{}] {}:{}: {}\n", the_world->rank(), the_world->size(),
                    result.file_name() == nullptr ? "?" : result.file_name(), result.line_number(), result.message());
  }

  void OnTestEnd(const ::testing::TestInfo&) override {
    for (const auto& text : the_world->gather(text_)) {
      if (text.empty()) continue;
      failed_ = true;
      if (the_world->rank() == 0) std::fprintf(stderr, "%s", text.c_str());
    }
    text_.clear();
  }

  bool failed() const { return failed_; }

 private:
  std::string text_;
  bool failed_ = false;
};

int run(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const auto world = make_mpi_world(&argc, &argv);
  the_world = world.get();
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  if (world->rank() != 0) delete listeners.Release(listeners.default_result_printer());
  auto* failures = new Failures;
  listeners.Append(failures);  // gtest's from here
  const int result = RUN_ALL_TESTS();
  return result != 0 || failures->failed() ? 1 : 0;
}

}  // namespace

World& test_world() { return *the_world; }

}  // namespace tessera::comm

int main(int argc, char** argv) {
  try {
    return tessera::comm::run(argc, argv);
  } catch (const tessera::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return static_cast<int>(e.code());
  }
}
