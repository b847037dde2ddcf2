#include "checkpoint/shard_writer.h"

#include <algorithm>
#include <thread>

#include "core/box_runs.h"
#include "core/checksum.h"
#include "core/error.h"

namespace tessera::checkpoint {

ShardWriter::ShardWriter(std::string folder, const std::vector<ShardFile>& files, bool is_first, double bytes_per_s,
                         const std::atomic<bool>* hurry)
    : folder_(std::move(folder)), bytes_per_s_(bytes_per_s), hurry_(hurry) {
  for (const auto& file : files) {
    const auto index = names_.size();
    names_.push_back(file.name);
    std::map<std::string, StoredTensor> placed;
    const auto header = make_header(file.tensors, placed);
    auto end = static_cast<std::int64_t>(header.size());
    for (const auto& [name, tensor] : placed) {
      end = std::max(end, tensor.end);
      places_[name] = {index, tensor};
    }
    if (!is_first) continue;
    auto& opened = open(index);
    opened.reserve(end);
    opened.write(header.data(), static_cast<std::int64_t>(header.size()), 0);
  }
}

void ShardWriter::write(const std::string& name, const Box& box, std::int64_t first, std::int64_t count,
                        const void* elements) {
  const auto it = places_.find(name);
  TESSERA_CHECK(it != places_.end(), "no tensor '{}' was announced", name);
  const auto& tensor = it->second.tensor;
  auto& file = open(it->second.file);
  const BoxRuns runs(tensor.shape, box);
  const auto item = size_of(tensor.dtype);
  constexpr std::int64_t kPiece = 4 << 20;  // bytes between two looks at the clock
  auto& sum = checksums_[name];
  const auto* at = static_cast<const char*>(elements);
  for (auto element = first; element < first + count;) {
    const auto in_run = element % runs.length();
    const auto part = std::min({runs.length() - in_run, first + count - element, kPiece / item});
    const auto place = runs.start(element / runs.length()) + in_run;
    wait_for_turn(part * item);
    file.write(at, part * item, tensor.begin + place * item);
    sum += checksum(at, part, item, place);
    at += part * item;
    element += part;
  }
}

void ShardWriter::close() {
  for (auto& [index, file] : files_) file.sync_and_close();
  files_.clear();
}

File& ShardWriter::open(std::size_t file) {
  const auto it = files_.find(file);
  if (it != files_.end()) return it->second;
  return files_.emplace(file, File::open_or_create(folder_ + "/" + names_[file])).first->second;
}

void ShardWriter::wait_for_turn(std::int64_t bytes) {
  if (bytes_per_s_ <= 0) return;
  const auto due = start_ + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                std::chrono::duration<double>(static_cast<double>(written_) / bytes_per_s_));
  constexpr auto kNap = std::chrono::milliseconds(50);
  while (std::chrono::steady_clock::now() < due && (hurry_ == nullptr || !hurry_->load(std::memory_order_relaxed)))
    std::this_thread::sleep_until(std::min(due, std::chrono::steady_clock::now() + kNap));
  written_ += bytes;
}

}  // namespace tessera::checkpoint
