#include "comm/node/watch.h"

#include <utility>

#include "core/error.h"

namespace tessera::comm {

Watch::Watch(const World& world, std::vector<std::string> hosts, const std::atomic<std::uint32_t>* failed,
             std::function<bool(int)> alive, double patience, std::function<std::atomic<std::int32_t>*(int)> outside)
    : world_(world),
      hosts_(std::move(hosts)),
      failed_(failed),
      alive_(std::move(alive)),
      patience_(patience),
      outside_(std::move(outside)) {}

void Watch::wait_outside(bool waits) const {
  if (auto* flag = outside_(world_.rank())) flag->fetch_add(waits ? 1 : -1, std::memory_order_relaxed);
}

bool Watch::waits_outside(int rank) const {
  const auto* flag = outside_(rank);
  return flag != nullptr && flag->load(std::memory_order_relaxed) > 0;
}

/// Who doesn't come to a collective of messages: ranks of the node that don't wait for messages, else those of other
/// nodes.
std::vector<int> Watch::who_is_missing() const {
  std::vector<int> here, elsewhere;
  for (int rank = 0; rank < world_.size(); ++rank) {
    if (rank == world_.rank() || waits_outside(rank)) continue;
    (outside_(rank) != nullptr ? here : elsewhere).push_back(rank);
  }
  return here.empty() ? elsewhere : here;
}

std::string Watch::name_of(int rank) const {
  return fmt::format("rank {} on {}", rank, hosts_[static_cast<std::size_t>(rank)]);
}

std::string Watch::doing(const char* what) const { return to_string(world_.context(), what); }

int Watch::first_dead() const {
  for (int rank = 0; rank < world_.size(); ++rank) {
    if (!alive_(rank)) return rank;
  }
  return -1;
}

std::string Watch::list(const std::vector<int>& ranks) const {
  if (ranks.empty()) return "the other ranks";
  std::vector<std::pair<std::string, std::string>> by_host;  // host -> "2, 3"
  for (const int rank : ranks) {
    const auto& host = hosts_[static_cast<std::size_t>(rank)];
    auto it = by_host.begin();
    while (it != by_host.end() && it->first != host) ++it;
    if (it == by_host.end()) it = by_host.insert(it, {host, ""});
    it->second += fmt::format("{}{}", it->second.empty() ? "" : ", ", rank);
  }
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < by_host.size(); ++i) {
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", by_host[i].second, by_host[i].first);
  }
  return text;
}

void Watch::look(const char* what, double seconds, const std::vector<int>& missing, int dead, bool by_messages) const {
  const auto me = name_of(world_.rank());
  if (const auto failed = failed_->load(std::memory_order_acquire); failed != 0) {
    const auto rank = static_cast<int>(failed) - 1;
    fail(ExitCode::kPeerLost, "{}: {} cannot go on: {} has failed", me, doing(what), name_of(rank));
  }
  if (dead >= 0) {
    fail(ExitCode::kPeerLost, "{}: {} cannot go on: {} has ended", me, doing(what), name_of(dead));
  }
  const double limit = world_.deadline() * patience_;
  if (seconds <= limit) return;
  auto ranks = missing.empty() && by_messages ? who_is_missing() : missing;
  std::erase_if(ranks, [&](int rank) { return waits_outside(rank); });
  if (ranks.empty() && !missing.empty()) {
    if (seconds <= 2 * limit) return;
    ranks = missing;
  }
  fail(ExitCode::kPeerLost, "{}: {} has waited {:.3g} s for {}", me, doing(what), limit, list(ranks));
}

}  // namespace tessera::comm
