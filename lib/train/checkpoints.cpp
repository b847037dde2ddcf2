#include "train/checkpoints.h"

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

std::int64_t bytes_of(const SavedFiles& files) {
  std::int64_t bytes = 0;
  for (const auto& file : files.all())
    for (const auto& tensor : file.tensors) bytes += elements(tensor.shape) * size_of(tensor.dtype);
  return bytes;
}

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
  std::memcpy(text.data() + 1, sums.data(), text.size() - 1);
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
    if (writer_.joinable()) writer_.join();
  }

  const checkpoint::Position& position() const { return position_; }
  const SavedFiles& files() const { return files_; }
  const std::string& folder() const { return folder_; }
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  const std::string& failure() const { return failure_; }

  /// By the order of the files' tensors; of this rank's parts.
  std::vector<std::uint64_t> sums() const { return sums_; }

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
  void write_now(double bytes_per_s) {
    attempt([&] {
      constexpr std::int64_t kPieceBytes = std::int64_t{16} << 20;
      std::vector<std::byte> piece;
      auto shards = open_files(bytes_per_s);
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
  checkpoint::ShardWriter open_files(double bytes_per_s) const {
    std::error_code error;
    fs::create_directories(folder_, error);  // by whichever rank comes first
    if (error) fail(ExitCode::kCheckpoint, "can't create {}: {}", folder_, error.message());
    return {folder_, files_.all(), session_.world().rank() == 0, bytes_per_s};
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
  std::atomic<bool> ended_ = false;
  std::thread writer_;
};

Checkpoints::Checkpoints(Session& session, Observer& observer, CheckpointOptions options)
    : session_(session), observer_(observer), options_(std::move(options)) {
  agree(session.world(), [&] {
    if (session.world().rank() != 0) return;
    checkpoint::remove_unfinished(options_.parent);
    if (const auto found = checkpoint::finished_folders(options_.parent); !found.empty())
      saved_step_ = found.front().step;
  });
  saved_step_ = std::stoll(session.world().broadcast(std::to_string(saved_step_), 0));
  if (session.spec().checkpoint.present) check_room();
}

Checkpoints::~Checkpoints() = default;

void Checkpoints::check_room() {
  if (session_.world().rank() != 0) return;
  auto folder = fs::absolute(options_.parent);
  std::error_code error;
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  const auto space = fs::space(folder, error);
  if (error) return;
  const auto one = bytes_of(saved_files(session_.plan()));
  // Until the newest is finished, the oldest stays.
  const auto there = static_cast<std::int64_t>(checkpoint::finished_folders(options_.parent).size());
  const auto more = std::max<std::int64_t>(session_.spec().checkpoint.keep + 1 - there, 1);
  if (static_cast<double>(space.available) < static_cast<double>(one) * static_cast<double>(more))
    observer_.warning(fmt::format("{} has {} free; a checkpoint takes {}, and {} more will be there at a time",
                                  folder.string(), human_bytes(static_cast<double>(space.available)),
                                  human_bytes(static_cast<double>(one)), more));
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
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - last_begin_;
  return session_.world().any(session_.world().rank() == 0 && since.count() >= spec.every_minutes * 60);
}

void Checkpoints::begin(const checkpoint::Position& position) {
  last_begin_ = std::chrono::steady_clock::now();
  save_ = std::make_unique<Save>(session_, options_.parent, position);
  save_->start(session_.spec().checkpoint.mb_per_s * 1e6);
  copy_ms_ = milliseconds_since(last_begin_);
}

checkpoint::Manifest Checkpoints::manifest(const checkpoint::Position& position,
                                           std::vector<std::uint64_t> sums) const {
  checkpoint::Manifest m{.version = options_.version,
                         .config = session_.spec().resolved,
                         .device = session_.plan().device,
                         .mesh = to_string(session_.plan().mesh),
                         .ranks = session_.world().size(),
                         .order = options_.order,
                         .tuning = session_.executor().tuning(),
                         .position = position,
                         .tensors = {}};
  std::size_t k = 0;
  for (const auto& file : save_->files().all())
    for (const auto& tensor : file.tensors) m.tensors[tensor.name] = {checkpoint::form_of(tensor), sums[k++]};
  return m;
}

void Checkpoints::finish() {
  auto& world = session_.world();
  const auto results = world.gather(result_text(save_->failure(), save_->sums()));
  const auto position = save_->position();
  std::string failure;
  std::vector<std::uint64_t> sums(save_->sums().size());
  for (std::size_t rank = 0; rank < results.size() && failure.empty(); ++rank) {
    const auto& text = results[rank];
    if (text[0] == '!') failure = world.size() > 1 ? fmt::format("rank {}: {}", rank, text.substr(1)) : text.substr(1);
    std::vector<std::uint64_t> part(failure.empty() ? sums.size() : 0);
    std::memcpy(part.data(), text.data() + 1, part.size() * sizeof(std::uint64_t));
    for (std::size_t t = 0; t < part.size(); ++t) sums[t] += part[t];
  }
  const auto end_save = [&] { save_.reset(); };
  if (!failure.empty()) {
    std::error_code error;
    if (world.rank() == 0) fs::remove_all(save_->folder(), error);
    end_save();
    fail(ExitCode::kCheckpoint, "{}", failure);
  }
  try {
    agree(world, [&] {
      if (world.rank() != 0) return;
      checkpoint::finish_folder(
          options_.parent, manifest(position, std::move(sums)),
          {checkpoint::index_name("model"), checkpoint::index_name("optimizer")},
          {checkpoint::index_json(save_->files().model), checkpoint::index_json(save_->files().optimizer)});
      checkpoint::remove_oldest(options_.parent, session_.spec().checkpoint.keep);
    });
  } catch (const Error&) {
    end_save();
    throw;
  }
  observer_.checkpoint({.step = position.steps,
                        .bytes = bytes_of(save_->files()),
                        .copy_ms = copy_ms_,
                        .write_s = milliseconds_since(last_begin_) / 1e3});
  end_save();
  saved_step_ = position.steps;
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

void Checkpoints::save_now(const checkpoint::Position& position) {
  if (save_) wait_and_finish();
  if (saved_step_ == position.steps) return;
  last_begin_ = std::chrono::steady_clock::now();
  save_ = std::make_unique<Save>(session_, options_.parent, position);
  save_->write_now(0);
  copy_ms_ = milliseconds_since(last_begin_);
  finish();
}

void Checkpoints::training_is_complete() {
  if (session_.spec().checkpoint.present || session_.world().rank() != 0) return;
  std::error_code error;
  fs::remove_all(options_.parent, error);  // what can't be removed does no harm
}

void Checkpoints::warn(const std::string& sentence) { observer_.warning(sentence); }

}  // namespace tessera::train
