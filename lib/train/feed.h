#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "train/session.h"

namespace tessera::train {

/// What a graph reads, as fields of one sample. A program that knows sample weights, on data without them: every row
/// counts once, and the field is left out. Random whole numbers stay below what the ops that read them allow.
std::vector<data::Field> fields_of(const graph::Graph& graph, const config::DataSpec& data);

/// How a feed goes through its data.
struct FeedOptions {
  bool shuffle = false;
  std::int64_t steps_per_epoch = 0;  // 0: all
  bool restart = false;              // every epoch starts at the first row (evaluate, predict)
  bool every_row = false;            // fit.remainder doesn't matter: nothing is dropped (evaluate, predict)
};

/// A dataset bound to the inputs of one program: puts this rank's rows of a batch where the program reads them.
class Feed {
 public:
  /// `on`: "train", "validation" or "test", a key of the spec's data. Collective. Throws Error (config: no such data;
  /// data: missing file, shape or dtype that doesn't fit) on all ranks.
  Feed(Session& session, const std::string& program, const std::string& on, const FeedOptions& options);
  ~Feed();

  std::int64_t samples() const;
  std::int64_t steps(std::int64_t epoch) const;
  /// Whether the data end before steps_per_epoch.
  bool cut_short(std::int64_t epoch) const;

  /// Fills the inputs with a batch of an epoch, both counted from 0. Returns the rows that are not padding.
  std::int64_t fill(std::int64_t epoch, std::int64_t step);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::train
