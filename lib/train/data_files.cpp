#include "train/data_files.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/checksum.h"
#include "core/error.h"

namespace tessera::train {
namespace {

/// "SIZE CHECKSUM" of the first bytes, the last ones and some between; "!WORDS" where the file can't be read.
std::string fingerprint(const std::string& file) {
  constexpr std::int64_t kPieces = 64, kPiece = 4096;
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return std::string("!") + std::strerror(errno);
  struct stat status {};
  std::string result = std::string("!") + "cannot be read";
  if (::fstat(descriptor, &status) == 0) {
    std::array<char, kPiece> bytes{};
    std::uint64_t sum = 0;
    const auto last = std::max<std::int64_t>(status.st_size - kPiece, 0);
    for (std::int64_t k = 0; k < kPieces; ++k) {
      const auto at = last / (kPieces - 1) * k + last % (kPieces - 1) * k / (kPieces - 1);
      const auto count = ::pread(descriptor, bytes.data(), bytes.size(), at);
      if (count > 0) sum += checkpoint::checksum(bytes.data(), count, 1, at);
    }
    result = std::to_string(status.st_size) + " " + checkpoint::checksum_text(sum);
  }
  ::close(descriptor);
  return result;
}

}  // namespace

void require_equal_files(comm::World& world, const config::DataSpec& data) {
  if (world.size() == 1) return;
  std::string own = world.host() + "\n";
  for (const auto& [key, file] : data.npy) own += fingerprint(file) + "\n";
  const auto all = world.gather(own);
  std::vector<std::vector<std::string>> lines;
  for (const auto& text : all) {
    auto& rank = lines.emplace_back();
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) rank.push_back(line);
  }
  std::size_t k = 1;
  for (const auto& [key, file] : data.npy) {
    const auto& pos = data.npy_pos.at(key);
    for (std::size_t rank = 0; rank < lines.size(); ++rank) {
      const auto& host = lines[rank][0];
      const auto& print = lines[rank][k];
      if (print.starts_with('!') && rank > 0 && !lines[0][k].starts_with('!'))
        fail_at(pos, ExitCode::kData,
                "rank {} on {} has no {}: {}; rank 0 on {} has it. Copy it to every node, or use a "
                "shared file system",
                rank, host, file, print.substr(1), lines[0][0]);
      if (print != lines[0][k])
        fail_at(pos, ExitCode::kData, "rank {} on {} reads another {} than rank 0 on {}: they differ in {}", rank, host,
                file, lines[0][0],
                print.substr(0, print.find(' ')) != lines[0][k].substr(0, lines[0][k].find(' ')) ? "size" : "content");
    }
    ++k;
  }
}

}  // namespace tessera::train
