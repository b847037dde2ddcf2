#include "core/shared_object.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace tessera {
namespace {

class SharedObjectPath : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(root_); }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::filesystem::path put(const std::string& folder) {
    std::filesystem::create_directories(root_ / folder);
    std::ofstream(root_ / folder / "libtessera_x.so") << "x";
    return root_ / folder / "libtessera_x.so";
  }

  std::filesystem::path root_ = std::filesystem::path(::testing::TempDir()) / "shared_object_path";
};

TEST_F(SharedObjectPath, OfAnInstalledProgramIsLibTessera) {
  const auto installed = put("lib/tessera");
  EXPECT_EQ(shared_object_path(root_ / "bin", "libtessera_x.so"), installed);
}

TEST_F(SharedObjectPath, BesideTheProgramComesFirst) {
  put("lib/tessera");
  const auto beside = put("bin");
  EXPECT_EQ(shared_object_path(root_ / "bin", "libtessera_x.so"), beside);
}

TEST_F(SharedObjectPath, OfWhatIsNotThereIsBesideTheProgram) {
  EXPECT_EQ(shared_object_path(root_ / "bin", "libtessera_x.so"), root_ / "bin/libtessera_x.so");
}

}  // namespace
}  // namespace tessera
