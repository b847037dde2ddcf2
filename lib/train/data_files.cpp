#include "train/data_files.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "checkpoint/file.h"
#include "core/checksum.h"
#include "core/error.h"

namespace tessera::train {
namespace {

/// "SIZE CHECKSUM" of the first bytes, the last ones and some between; "!WORDS" where the file can't be read.
std::string fingerprint(const std::string& path) {
  constexpr std::int64_t kPieces = 64, kPiece = 4096;
  try {
    const auto file = checkpoint::File::open_to_read(path);
    const auto size = file.size(), piece = std::min(kPiece, size), last = size - piece;
    std::array<char, kPiece> bytes{};
    std::uint64_t sum = 0;
    for (std::int64_t k = 0; k < kPieces; ++k) {
      const auto at = last / (kPieces - 1) * k + last % (kPieces - 1) * k / (kPieces - 1);
      file.read(bytes.data(), piece, at);
      sum += checksum(bytes.data(), piece, 1, at);
    }
    return std::to_string(size) + " " + checksum_text(sum);
  } catch (const Error& error) {
    return std::string("!") + error.what();
  }
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
  const auto rank_text = [&](std::size_t rank) { return fmt::format("rank {} on {}", rank, lines[rank][0]); };
  for (const auto& [key, file] : data.npy) {
    const auto& pos = data.npy_pos.at(key);
    const auto lacks = [&](const auto& rank) { return rank[k].starts_with('!'); };
    const auto without = std::find_if(lines.begin(), lines.end(), lacks);
    const auto with = std::find_if_not(lines.begin(), lines.end(), lacks);
    if (without != lines.end() && with != lines.end())
      fail_at(pos, ExitCode::kData, "{} can't read what {} can: {}. Copy it to every node, or use a shared file system",
              rank_text(static_cast<std::size_t>(without - lines.begin())),
              rank_text(static_cast<std::size_t>(with - lines.begin())), (*without)[k].substr(1));
    const auto size_of_print = [](const std::string& print) { return print.substr(0, print.find(' ')); };
    for (std::size_t rank = 1; with != lines.end() && rank < lines.size(); ++rank)
      if (lines[rank][k] != lines[0][k])
        fail_at(pos, ExitCode::kData, "{} reads another {} than {}: they differ in {}", rank_text(rank), file,
                rank_text(0), size_of_print(lines[rank][k]) != size_of_print(lines[0][k]) ? "size" : "content");
    ++k;
  }
}

}  // namespace tessera::train
