#include "train/checkpoints.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "checkpoint/folders.h"
#include "checkpoint/shard_writer.h"
#include "core/text.h"
#include "train/agree.h"
#include "train/saved_state.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

std::vector<std::string> tensor_names(const SavedFiles& files) {
  std::vector<std::string> names;
  for (const auto& file : files.all())
    for (const auto& tensor : file.tensors) names.push_back(tensor.name);
  return names;
}

// "!SENTENCE", or a checksum of 8 bytes for each tensor.
std::string result_text(const std::string& failure, const std::vector<std::uint64_t>& sums) {
  if (!failure.empty()) return "!" + failure;
  std::string text(1 + sums.size() * sizeof(std::uint64_t), ' ');
  if (!sums.empty()) std::memcpy(text.data() + 1, sums.data(), text.size() - 1);
  return text;
}

}  // namespace

/// One rank's part of one checkpoint.
class Checkpoints::Save {
 public:
  Save(Session& session, const std::string& parent, const checkpoint::Position& position)
      : session_(session),
        position_(position),
        files_(saved_files(session.plan())),
        names_(tensor_names(files_)),
        folder_(checkpoint::partial_folder_of_step(parent, position.steps)),
        parts_(parts_to_save(session.plan(), session.world().rank())) {}

  ~Save() {
    hurry();
    if (writer_.joinable()) writer_.join();
  }

  const checkpoint::Position& position() const { return position_; }
  const SavedFiles& files() const { return files_; }
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  const std::string& failure() const { return failure_; }

  /// By the order of the files' tensors; of this rank's parts.
  const std::vector<std::uint64_t>& sums() const { return sums_; }

  /// The limit of its speed holds no longer.
  void hurry() { hurry_ = true; }

  /// Copies this rank's parts and writes them on a thread of their own.
  void start(double bytes_per_s) {
    const auto memory = session_.executor().snapshot_memory();
    std::int64_t at = 0;
    for (const auto& part : parts_) {
      TESSERA_CHECK(at + part.bytes() <= std::ssize(memory), "{} bytes of snapshot", memory.size());
      session_.executor().read_state(part.state->variable.path, part.first * part.item(), part.bytes(),
                                     memory.data() + at);
      at += partition::aligned(part.bytes());
    }
    writer_ = std::thread([this, memory, bytes_per_s] {
      attempt([&] {
        auto shards = open_files(bytes_per_s);
        std::int64_t from = 0;
        for (const auto& part : parts_) {
          shards.write(part.state->variable.path, part.box, part.first, part.count, memory.data() + from);
          from += partition::aligned(part.bytes());
        }
        close(shards);
      });
      ended_.store(true, std::memory_order_release);
    });
  }

  /// The same at once, through a small buffer.
  void write_now() {
    attempt([&] {
      constexpr std::int64_t kPieceBytes = std::int64_t{16} << 20;
      std::vector<std::byte> piece;
      auto shards = open_files(0);
      for (const auto& part : parts_) {
        const auto step = kPieceBytes / part.item();
        for (std::int64_t done = 0; done < part.count; done += step) {
          const auto count = std::min(step, part.count - done);
          piece.resize(static_cast<std::size_t>(count * part.item()));
          session_.executor().read_state(part.state->variable.path, (part.first + done) * part.item(),
                                         count * part.item(), piece.data());
          shards.write(part.state->variable.path, part.box, part.first + done, count, piece.data());
        }
      }
      close(shards);
    });
    ended_ = true;
  }

 private:
  checkpoint::ShardWriter open_files(double bytes_per_s) {
    std::error_code error;
    fs::create_directories(folder_, error);  // by whichever rank comes first
    if (error) fail(ExitCode::kCheckpoint, "can't create {}: {}", folder_, error.message());
    return {folder_, files_.all(), session_.world().rank() == 0, bytes_per_s, &hurry_};
  }
  void close(checkpoint::ShardWriter& shards) {
    shards.close();
    for (const auto& name : names_) {
      const auto it = shards.checksums().find(name);
      sums_.push_back(it == shards.checksums().end() ? 0 : it->second);
    }
  }
  void attempt(const std::function<void()>& body) {
    try {
      body();
    } catch (const std::exception& error) {
      failure_ = error.what();
    }
  }

  Session& session_;
  checkpoint::Position position_;
  SavedFiles files_;
  std::vector<std::string> names_;
  std::string folder_;
  std::vector<SavedPart> parts_;
  std::vector<std::uint64_t> sums_;
  std::string failure_;
  std::atomic<bool> ended_ = false, hurry_ = false;
  std::thread writer_;
};

Checkpoints::Checkpoints(Session& session, Observer& observer, CheckpointOptions options)
    : session_(session), observer_(observer), options_(std::move(options)) {
  if (options_.first_is_saved) saved_step_ = options_.first_step;
  std::vector<std::string> warnings;
  agree(session.world(), [&] {
    if (session.world().rank() != 0) return;
    checkpoint::remove_unfinished(options_.parent);
    for (const auto& folder : checkpoint::set_aside_later(options_.parent, options_.first_step))
      warnings.push_back(
          fmt::format("{}: a checkpoint of a later step than this run goes on from has this name now", folder));
    if (const auto room = lack_of_room(); !room.empty()) warnings.push_back(room);
  });
  for (const auto& warning : warnings) warn(warning);
}

Checkpoints::~Checkpoints() = default;

std::string Checkpoints::lack_of_room() const {
  const auto& spec = session_.spec().checkpoint;
  const auto free = checkpoint::free_space(options_.parent);
  if (!spec.present || free < 0) return "";
  const auto one = saved_files(session_.plan()).bytes();
  // Until the newest is finished, the oldest stays.
  const auto there = static_cast<std::int64_t>(checkpoint::finished_folders(options_.parent).size());
  const auto more = std::max<std::int64_t>(spec.keep + 1 - there, 1);
  if (static_cast<double>(free) >= static_cast<double>(one) * static_cast<double>(more)) return "";
  return fmt::format("where {} lies {} are free; a checkpoint takes {}, and {} more will be there at a time",
                     options_.parent, human_bytes(static_cast<double>(free)), human_bytes(static_cast<double>(one)),
                     more);
}

void Checkpoints::step_done(const checkpoint::Position& position) {
  if (save_ && !session_.world().any(!save_->ended())) finish_or_warn();
  if (!is_due(position)) return;
  if (save_) {
    if (!std::exchange(warned_of_waits_, true))
      warn(
          fmt::format("step {} waits for the checkpoint of step {}, which is still being written: checkpoints are due "
                      "faster than the disk takes them",
                      position.steps, save_->position().steps));
    wait_and_finish();
  }
  begin(position);
}

// By the clock of rank 0.
bool Checkpoints::is_due(const checkpoint::Position& position) {
  const auto& spec = session_.spec().checkpoint;
  if (spec.every_steps > 0 && position.steps % spec.every_steps == 0) return true;
  if (spec.every_minutes <= 0) return false;
  const bool due = milliseconds_since(last_begin_) >= spec.every_minutes * 60e3;
  return session_.world().any(session_.world().rank() == 0 && due);
}

void Checkpoints::begin(const checkpoint::Position& position) {
  last_begin_ = std::chrono::steady_clock::now();
  save_ = std::make_unique<Save>(session_, options_.parent, position);
  save_->start(session_.spec().checkpoint.mb_per_s * 1e6);
  copy_ms_ = milliseconds_since(last_begin_);
}

checkpoint::Manifest Checkpoints::manifest(const Save& save, const std::vector<std::uint64_t>& sums) const {
  checkpoint::Manifest m{.version = options_.version,
                         .config = session_.spec().resolved,
                         .device = session_.plan().device,
                         .mesh = to_string(session_.plan().mesh),
                         .ranks = session_.world().size(),
                         .order = options_.order,
                         .tuning = session_.executor().tuning(),
                         .position = save.position(),
                         .tensors = {}};
  std::size_t k = 0;
  for (const auto& file : save.files().all())
    for (const auto& tensor : file.tensors) m.tensors[tensor.name] = {checkpoint::form_of(tensor), sums[k++]};
  return m;
}

std::vector<std::uint64_t> Checkpoints::gather_sums(const Save& save) const {
  const auto results = session_.world().gather(result_text(save.failure(), save.sums()));
  for (std::size_t rank = 0; rank < results.size(); ++rank)
    if (results[rank].starts_with('!'))
      fail(ExitCode::kCheckpoint, "{}{}", results.size() > 1 ? fmt::format("rank {}: ", rank) : "",
           results[rank].substr(1));
  std::vector<std::uint64_t> sums(save.sums().size()), part(sums);
  for (const auto& text : results) {
    if (!part.empty()) std::memcpy(part.data(), text.data() + 1, part.size() * sizeof part[0]);
    for (std::size_t t = 0; t < part.size(); ++t) sums[t] += part[t];
  }
  return sums;
}

void Checkpoints::finish() {
  auto& world = session_.world();
  const auto save = std::move(save_);  // it has ended, whatever becomes of it
  const auto step = save->position().steps;
  try {
    const auto sums = gather_sums(*save);
    agree(world, [&] {
      if (world.rank() != 0) return;
      try {
        checkpoint::finish_folder(
            options_.parent, manifest(*save, sums),
            {checkpoint::index_name("model"), checkpoint::index_name("optimizer")},
            {checkpoint::index_json(save->files().model), checkpoint::index_json(save->files().optimizer)});
      } catch (const Error&) {
        throw;
      } catch (const std::exception& error) {
        fail(ExitCode::kCheckpoint, "{}", error.what());
      }
    });
  } catch (const Error&) {
    // On all ranks alike; no rank begins another save before what is left of this one is gone.
    agree(world, [&] {
      if (world.rank() == 0) checkpoint::remove_unfinished(options_.parent);
    });
    throw;
  }
  saved_step_ = step;
  tell([&] {
    observer_.checkpoint({.step = step,
                          .bytes = save->files().bytes(),
                          .copy_ms = copy_ms_,
                          .write_s = milliseconds_since(last_begin_) / 1e3});
  });
  std::string left;
  try {
    if (world.rank() == 0) checkpoint::remove_oldest(options_.parent, session_.spec().checkpoint.keep);
  } catch (const Error& error) {
    left = error.what();
  }
  if (!left.empty()) warn(left);
}

void Checkpoints::finish_or_warn() {
  const auto step = save_->position().steps;
  try {
    finish();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kCheckpoint) throw;
    warn(fmt::format(
        "the checkpoint of step {} was NOT saved: {}; training goes on, {}", step, error.what(),
        saved_step_ < 0 ? std::string("there is no older one") : fmt::format("that of step {} stands", saved_step_)));
  }
}

void Checkpoints::wait_and_finish() {
  while (session_.world().any(!save_->ended())) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  finish_or_warn();
}

void Checkpoints::finish_in_hand() {
  if (!save_) return;
  save_->hurry();
  wait_and_finish();
}

void Checkpoints::save_now(const checkpoint::Position& position) {
  finish_in_hand();
  if (saved_step_ == position.steps) return;
  last_begin_ = std::chrono::steady_clock::now();
  save_ = std::make_unique<Save>(session_, options_.parent, position);
  save_->write_now();
  copy_ms_ = milliseconds_since(last_begin_);
  finish();
}

// What fails in an observer (a full disk on rank 0) ends the job.
void Checkpoints::tell(const std::function<void()>& event) { or_end_job(session_.world(), event); }

void Checkpoints::warn(const std::string& sentence) {
  tell([&] { observer_.warning(sentence); });
}

}  // namespace tessera::train
