#pragma once

#include <functional>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "config/spec.h"
#include "options.h"
#include "train/session.h"

namespace tessera::trainer {

/// The job that a launcher started, or this process alone.
std::unique_ptr<comm::World> open_world(int* argc, char*** argv);

/// Throws Error (config) where the launcher started another number of ranks than MPI sees. Collective.
void check_launcher(const Options& options, comm::World& world);

/// Rank 0 reads the config, so that all ranks have one text. Collective.
config::Spec load_spec(const Options& options, comm::World& world);

/// output_dir/name.
std::string run_folder(const config::Spec& spec);

/// Appends what a verb did with a trained model to the run's metrics.jsonl. Collective. Throws Error (data) on all
/// ranks where that can't be written.
void append_events(const config::Spec& spec, comm::World& world, const std::function<void(train::Observer&)>& events);

/// `--ranks`, else the ranks of the job, else as many as the mesh names.
std::int64_t planned_ranks(const Options& options, const config::Spec& spec, const comm::World& world);

/// The spec with the weights that evaluate and predict use: `--weights`, else final.safetensors of the run's folder,
/// else model.load_weights. Throws Error (checkpoint) if there are none. Collective.
config::Spec with_weights(const Options& options, config::Spec spec, comm::World& world);

/// `--data`, else validation, else train.
std::string data_name(const Options& options, const config::Spec& spec);

train::SessionOptions session_options(const Options& options, std::vector<std::string> programs);

/// To standard error, from rank 0.
void print_warnings(const comm::World& world, const std::vector<std::string>& warnings);

}  // namespace tessera::trainer
