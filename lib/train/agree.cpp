#include "train/agree.h"

#include <algorithm>
#include <new>

namespace tessera::train {
namespace {

// "CODE SENTENCE", "" where nothing failed.
std::string failure_of(const std::function<void()>& body) {
  try {
    body();
    return "";
  } catch (const Error& error) {
    return fmt::format("{} {}", static_cast<int>(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    return fmt::format("{} out of host memory", static_cast<int>(ExitCode::kOutOfMemory));
  } catch (const std::exception& error) {
    return fmt::format("{} {}", static_cast<int>(ExitCode::kInternal), error.what());
  }
}

}  // namespace

void agree(comm::World& world, const std::function<void()>& body) {
  if (world.size() == 1) return body();
  const auto failures = world.gather(failure_of(body));
  const auto failed = std::find_if(failures.begin(), failures.end(), [](const auto& text) { return !text.empty(); });
  if (failed == failures.end()) return;
  const auto space = failed->find(' ');
  const auto code = static_cast<ExitCode>(std::stoi(failed->substr(0, space)));
  const auto sentence = failed->substr(space + 1);
  const bool everywhere =
      std::all_of(failures.begin(), failures.end(), [&](const auto& text) { return text == *failed; });
  if (everywhere) throw Error(code, sentence);
  fail(code, "rank {}: {}", failed - failures.begin(), sentence);
}

}  // namespace tessera::train
