#include "runtime/executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <thread>

#include "core/checksum.h"
#include "partition/plan.h"
#include "runtime/finite.h"
#include "runtime/image.h"
#include "runtime/initial_values.h"
#include "runtime/queued_streams.h"
#include "runtime/streams.h"

namespace tessera::runtime {

using partition::CollectiveKind;
using partition::Pool;
using partition::Stream;

namespace {

constexpr int kCompute = static_cast<int>(Stream::kCompute);
constexpr int kComm = static_cast<int>(Stream::kComm);
// A recording does not tell how far it has come.
constexpr std::string_view kWholeStep = "the CUDA graph of the step (without cuda_graphs a message names the layer)";
constexpr std::int64_t kChunk = std::int64_t{1} << 20;  // elements or bytes that pass through host memory at a time

void execute_collective(const Step& step, const partition::CollectiveCall& call, const Step::Operands& operands) {
  auto& communicator = *step.communicator;
  switch (call.kind) {
    case CollectiveKind::kAllReduce:
      return communicator.all_reduce(operands.pieces, call.dtype, step.reduce);
    case CollectiveKind::kReduceScatter:
      return communicator.reduce_scatter(operands.pieces, call.dtype, step.reduce);
    case CollectiveKind::kAllGather:
      return communicator.all_gather(operands.pieces, call.dtype);
    case CollectiveKind::kAllToAll:
      return communicator.all_to_all(operands.pieces, call.dtype);
    case CollectiveKind::kBoxExchange:
      return communicator.box_exchange(operands.pieces[0].in, step.transfers.sends, operands.pieces[0].out,
                                       step.transfers.receives, call.dtype);
  }
}

}  // namespace

struct Executor::Impl {
  const partition::Plan& plan;
  device::Device& device;
  comm::World& world;
  ExecutorOptions options;
  std::array<std::shared_ptr<void>, partition::kPoolCount> memory;  // kComm belongs to the world
  std::array<std::int64_t, partition::kPoolCount> allocated{};      // bytes, by pool
  Pools pools;
  std::vector<std::unique_ptr<device::Kernel>> kernels;
  std::map<std::string, ProgramImage> programs;
  std::map<std::string, std::size_t> state_by_path;
  std::unique_ptr<Streams> streams;       // where a thread of this process communicates
  std::unique_ptr<QueuedStreams> queued;  // where the device works beside its host
  std::unique_ptr<Profiler> profiler;     // where times are asked for
  comm::Context context;
  std::string tuning;

  /// What run() queues for a program and an epilogue. The first time it is queued as it is, which loads kernels and
  /// connects communicators.
  struct Replay {
    bool warm = false;
    std::unique_ptr<device::Recording> recording;
  };
  std::map<std::pair<const ProgramImage*, const SectionImage*>, Replay> replays;
  const partition::Program* running = nullptr;
  bool replaying = false;  // what is on the device now is a recording

  void allocate();
  std::byte* state_pointer(const std::string& path) const;
  const ProgramImage& program(const std::string& name) const;
  void upload_inputs(const partition::Program& planned);
  const SectionImage* epilogue(const ProgramImage& image, const std::string& name) const;
  void begin(const ProgramImage& image, const device::StepParams& params);
  void run_body(const ProgramImage& image, const device::StepParams& params);
  void run_tail(const SectionImage& epilogue, const device::StepParams& params);
  void replay_sections(const ProgramImage& image, const SectionImage* epilogue, const device::StepParams& params);
  void run_section(const SectionImage& section, const device::StepParams& params);
  void run_in_order(const SectionImage& section, const device::StepParams& params);
  void run_stream(const SectionImage& section, int stream, const device::StepParams& params);
  void execute(const SectionImage& section, int index, const device::StepParams& params);
  void execute(const Step& step, int index, const device::StepParams& own);
  void make_kernels(const std::vector<ImageMaker::KernelOfStream>& list);
  void finish(std::int64_t step);
  void look_at(const Step* unfinished, std::int64_t step, double seconds);
};

void Executor::Impl::allocate() {
  for (int p = 0; p < partition::kPoolCount; ++p) {
    const auto bytes = plan.pool_bytes[p];
    if (bytes == 0) continue;
    const auto index = static_cast<std::size_t>(p);
    allocated[index] = bytes;
    if (static_cast<Pool>(p) == Pool::kComm && !(device.asynchronous() && world.size() == 1)) {
      pools.base[index] = static_cast<std::byte*>(world.communication_region(bytes));
    } else {
      const bool host = static_cast<Pool>(p) == Pool::kStaging || static_cast<Pool>(p) == Pool::kSnapshot;
      memory[index] = host ? device.allocate_host(bytes) : device.allocate(bytes);
      pools.base[index] = static_cast<std::byte*>(memory[index].get());
    }
  }
  if (plan.exchange_bytes > 0)
    world.use_exchange_memory(pools.at(Pool::kComm) + plan.exchange_offset, plan.exchange_bytes);
  constexpr auto kScratch = static_cast<std::size_t>(Pool::kScratch);
  device.set_scratch(pools.base[kScratch], plan.pool_bytes[kScratch]);
}

std::byte* Executor::Impl::state_pointer(const std::string& path) const {
  const auto it = state_by_path.find(path);
  TESSERA_CHECK(it != state_by_path.end(), "the plan has no state '{}'", path);
  const auto& state = plan.state[it->second];
  return pools.at(state.pool) + state.offset;
}

const ProgramImage& Executor::Impl::program(const std::string& name) const {
  const auto it = programs.find(name);
  TESSERA_CHECK(it != programs.end(), "the plan has no program '{}'", name);
  return it->second;
}

// Inputs lie at the same offsets in the host's pool, which the loader fills, and in the device's.
void Executor::Impl::upload_inputs(const partition::Program& planned) {
  for (const int input : planned.inputs) {
    const auto& value = planned.values[static_cast<std::size_t>(input)];
    device.upload(pools.at(Pool::kUploads) + value.offset, pools.at(Pool::kStaging) + value.offset, value.bytes);
  }
}

const SectionImage* Executor::Impl::epilogue(const ProgramImage& image, const std::string& name) const {
  const auto section = image.epilogues.find(name);
  TESSERA_CHECK(name.empty() || section != image.epilogues.end(), "program {} has no epilogue '{}'",
                image.program->name, name);
  return section == image.epilogues.end() ? nullptr : &section->second;
}

void Executor::Impl::begin(const ProgramImage& image, const device::StepParams& params) {
  device.begin_step(params);
  running = image.program;
  replaying = false;
  if (!queued) return;
  queued->begin();
  world.begin_step(params.step);
  upload_inputs(*image.program);
}

void Executor::Impl::run_body(const ProgramImage& image, const device::StepParams& params) {
  auto own = params;
  own.micro_batch = 0;
  run_section(image.prologue, own);
  for (; own.micro_batch < image.program->micro_batches; ++own.micro_batch) run_section(image.body, own);
}

void Executor::Impl::run_tail(const SectionImage& epilogue, const device::StepParams& params) {
  auto own = params;
  own.micro_batch = 0;
  run_section(epilogue, own);
}

void Executor::Impl::replay_sections(const ProgramImage& image, const SectionImage* epilogue,
                                     const device::StepParams& params) {
  auto& [warm, recording] = replays[{&image, epilogue}];
  const auto queue_all = [&] {
    run_body(image, params);
    if (epilogue != nullptr) run_tail(*epilogue, params);
  };
  if (!warm) {
    warm = true;
    return queue_all();
  }
  if (recording == nullptr) {
    recording = device.record(queue_all);
    queued->begin();  // its events are part of the recording
  }
  replaying = true;
  recording->replay();
}

void Executor::Impl::run_section(const SectionImage& section, const device::StepParams& params) {
  const auto queue_step = [&](int index) { execute(section, index, params); };
  if (options.nan_search && !queued) return run_in_order(section, params);
  if (queued) return queued->queue(section, std::cref(queue_step));  // a function of this size would be allocated
  if (!streams || section.of_stream[kComm].empty()) return run_in_order(section, params);
  const auto compute = [&] { run_stream(section, kCompute, params); };
  const auto communicate = [&] { run_stream(section, kComm, params); };
  streams->run(std::cref(compute), std::cref(communicate));
}

void Executor::Impl::run_in_order(const SectionImage& section, const device::StepParams& params) {
  for (int index = 0; index < static_cast<int>(section.steps.size()); ++index) execute(section, index, params);
}

void Executor::Impl::run_stream(const SectionImage& section, int stream, const device::StepParams& params) {
  for (const int index : section.of_stream[static_cast<std::size_t>(stream)]) {
    streams->wait_for(1 - stream, section.steps[static_cast<std::size_t>(index)].wait_for);
    execute(section, index, params);
    streams->advance(stream);
  }
}

void Executor::Impl::execute(const SectionImage& section, int index, const device::StepParams& params) {
  const auto& step = section.steps[static_cast<std::size_t>(index)];
  auto own = params;
  if (step.instruction->micro_batch >= 0) own.micro_batch = step.instruction->micro_batch;
  if (profiler) profiler->begin(step, own.micro_batch);
  execute(step, index, own);
  if (profiler) profiler->end(step, own.micro_batch);
  if (options.nan_search) {
    device.synchronize();
    require_finite(device, *running, step, own);
  }
}

void Executor::Impl::execute(const Step& step, int index, const device::StepParams& own) {
  const auto& operands = step.operands[static_cast<std::size_t>(own.micro_batch)];
  if (step.kernel >= 0) {
    try {
      kernels[static_cast<std::size_t>(step.kernel)]->run(operands.inputs.data(), operands.outputs.data(), own);
    } catch (const Error& error) {
      if (queued && error.code() == ExitCode::kInternal)  // perhaps of what was queued before
        fail(ExitCode::kInternal, "step {}, no later than {} (instruction {}): {}", own.step, step.what, index,
             error.what());
      if (error.code() != ExitCode::kData) throw;
      fail(ExitCode::kData, "step {}, '{}': {}", own.step, step.instruction->layer, error.what());
    }
    return;
  }
  context = {step.what, index, own.step};
  execute_collective(step, std::get<partition::CollectiveCall>(step.instruction->what), operands);
}

// Rank 0 chooses among the implementations of a kernel for all: replicas must compute the same bits.
void Executor::Impl::make_kernels(const std::vector<ImageMaker::KernelOfStream>& list) {
  std::vector<device::KernelSpec> specs;
  specs.reserve(list.size());
  for (const auto& kernel : list) specs.push_back(kernel.spec);
  if (!options.tuning.empty()) device.set_tuning(options.tuning);
  tuning = world.broadcast(world.rank() == 0 ? device.tune(specs) : "", 0);
  device.set_tuning(tuning);
  for (const auto& kernel : list) kernels.push_back(device.make_kernel(kernel.spec, kernel.stream));
}

// Waits for what has been queued, with an eye on the ranks that it may wait for.
void Executor::Impl::finish(std::int64_t step) {
  constexpr auto kNap = std::chrono::microseconds(20);
  constexpr auto kLook = std::chrono::milliseconds(20);
  const auto start = std::chrono::steady_clock::now();
  auto looked = start;
  const Step* unfinished = nullptr;
  try {
    while (queued && !device.idle()) {
      unfinished = queued->first_unfinished();
      const auto now = std::chrono::steady_clock::now();
      if (now - start < kLook) continue;  // most steps end so soon that a nap would cost more
      std::this_thread::sleep_for(kNap);
      if (now - looked < kLook) continue;
      looked = now;
      look_at(unfinished, step, std::chrono::duration<double>(now - start).count());
    }
    device.synchronize();
    world.check_queued();
  } catch (const Error& error) {
    if (error.code() == ExitCode::kData) fail(ExitCode::kData, "step {}, {}", step, error.what());
    if (error.code() == ExitCode::kInternal && replaying)
      fail(ExitCode::kInternal, "step {}, in {}: {}", step, kWholeStep, error.what());
    if (error.code() != ExitCode::kInternal || unfinished == nullptr) throw;
    fail(ExitCode::kInternal, "step {}, at or after {} (instruction {}): {}", step, unfinished->what,
         unfinished->number, error.what());
  }
}

void Executor::Impl::look_at(const Step* unfinished, std::int64_t step, double seconds) {
  const bool waits = unfinished != nullptr ? unfinished->kernel < 0 : replaying && world.size() > 1;
  if (!waits && seconds > options.time_limit_s)
    fail(ExitCode::kPeerLost, "step {}: {} has not ended on this rank's device after {:.3g} s", step,
         unfinished != nullptr ? std::string_view(unfinished->what)
         : replaying           ? kWholeStep
                               : "the last kernel",
         options.time_limit_s);
  if (unfinished != nullptr && waits) context = {unfinished->what, unfinished->number, step};
  if (replaying) context = {kWholeStep, -1, step};
  world.look_at_queued(seconds);
}

Executor::Executor(const partition::Plan& plan, device::Device& device, comm::World& world,
                   const ExecutorOptions& options)
    : impl_(new Impl{plan, device, world, options, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}}) {
  TESSERA_CHECK(plan.mesh.ranks() == world.size(), "a plan for {} ranks on {}", plan.mesh.ranks(), world.size());
  const auto hashes = world.gather(std::to_string(partition::hash(plan)));
  for (std::size_t rank = 1; rank < hashes.size(); ++rank)
    if (hashes[rank] != hashes[0])
      fail(ExitCode::kConfig,
           "rank {} on {} has another plan than rank 0 (hash {} and {}); do all nodes run the same build?", rank,
           world.host(), hashes[rank], hashes[0]);

  TESSERA_CHECK(plan.pool_bytes[static_cast<std::size_t>(Pool::kUploads)] == 0 || device.asynchronous(),
                "a plan for {} on {}", plan.device, device.name());

  impl_->allocate();
  for (std::size_t s = 0; s < plan.state.size(); ++s) impl_->state_by_path[plan.state[s].variable.path] = s;
  ImageMaker maker(plan, impl_->pools, world);
  for (const auto& [name, program] : plan.programs) impl_->programs[name] = maker.make(program);
  impl_->make_kernels(maker.kernels());
  if (options.profile) {
    impl_->profiler = std::make_unique<Profiler>(device);
    for (const auto& [name, image] : impl_->programs) impl_->profiler->add(image);
  }
  world.set_deadline(options.time_limit_s);
  world.set_context(&impl_->context);
  if (device.asynchronous())
    impl_->queued = std::make_unique<QueuedStreams>(device, maker.event_count());
  else if (options.comm_thread && world.size() > 1)
    impl_->streams = std::make_unique<Streams>();
}

Executor::~Executor() { impl_->world.set_context(nullptr); }

const partition::Plan& Executor::plan() const { return impl_->plan; }

void Executor::initialise_state() {
  std::vector<double> host(static_cast<std::size_t>(kChunk));  // 8 bytes: the largest element
  const auto coordinates = impl_->plan.mesh.coordinates(impl_->world.rank());
  for (const auto& state : impl_->plan.state) {
    auto* to = impl_->state_pointer(state.variable.path);
    const auto box = mesh::owned(state.layout, impl_->plan.mesh, coordinates, state.shape).front();
    const auto count = elements(box.size);
    for (std::int64_t first = 0; first < count; first += kChunk) {
      const auto part = std::min(kChunk, count - first);
      initial_values(state.variable.initializer, state.shape, box, state.dtype, first, part, host.data());
      impl_->device.copy_in(to + first * size_of(state.dtype), host.data(), part * size_of(state.dtype));
    }
  }
}

const partition::ProgramValue& Executor::input_value(const std::string& program, const std::string& name) const {
  const auto& image = impl_->program(program);
  for (const int value : image.program->inputs)
    if (const auto& v = image.program->values[static_cast<std::size_t>(value)]; v.name == name) return v;
  fail(ExitCode::kInternal, "program {} has no input '{}'", program, name);
}

void* Executor::input(const std::string& program, const std::string& name) {
  const auto& value = input_value(program, name);
  return impl_->pools.at(Pool::kStaging) + value.offset;
}

std::span<std::byte> Executor::prefetch_memory(const std::string& program) {
  const auto& planned = *impl_->program(program).program;
  if (planned.prefetch_bytes == 0) return {};
  return {impl_->pools.at(Pool::kStaging) + planned.prefetch_offset, static_cast<std::size_t>(planned.prefetch_bytes)};
}

std::span<std::byte> Executor::snapshot_memory() {
  return {impl_->pools.at(Pool::kSnapshot), static_cast<std::size_t>(pool_bytes(Pool::kSnapshot))};
}

void Executor::run(const std::string& program, const std::string& epilogue, const device::StepParams& params) {
  const auto& image = impl_->program(program);
  const auto* tail = impl_->epilogue(image, epilogue);
  impl_->begin(image, params);
  if (impl_->queued && impl_->options.graphs && !impl_->profiler && !impl_->options.nan_search) {
    impl_->replay_sections(image, tail, params);
  } else {
    impl_->run_body(image, params);
    if (tail != nullptr) impl_->run_tail(*tail, params);
  }
  impl_->finish(params.step);
  if (impl_->profiler) impl_->profiler->collect(image, epilogue);
}

bool Executor::run_if(const std::string& program, const std::string& epilogue, const device::StepParams& params,
                      const std::function<bool()>& proceed) {
  const auto& image = impl_->program(program);
  const auto* tail = impl_->epilogue(image, epilogue);
  impl_->begin(image, params);
  impl_->run_body(image, params);
  impl_->finish(params.step);
  const bool go = proceed();
  if (go && tail != nullptr) {
    if (impl_->queued) impl_->queued->begin();
    impl_->run_tail(*tail, params);
    impl_->finish(params.step);
  }
  if (impl_->profiler) impl_->profiler->collect(image, go ? epilogue : "");
  return go;
}

bool Executor::gradients_are_finite(const std::string& program) const {
  const auto& image = impl_->program(program);
  for (const auto& [path, index] : image.program->gradients) {
    const auto& value = image.program->values[static_cast<std::size_t>(index)];
    if (bad_element(impl_->device, value, image.values[static_cast<std::size_t>(index)]) >= 0) return false;
  }
  return true;
}

void Executor::read_output(const std::string& program, const std::string& name, void* host) const {
  const auto& image = impl_->program(program);
  for (const auto& output : image.program->outputs) {
    if (output.name != name) continue;
    const auto& value = image.program->values[static_cast<std::size_t>(output.value)];
    return impl_->device.copy_out(host, image.values[static_cast<std::size_t>(output.value)], value.bytes);
  }
  fail(ExitCode::kInternal, "program {} has no output '{}'", program, name);
}

const partition::StateBuffer& Executor::state(const std::string& path) const {
  const auto it = impl_->state_by_path.find(path);
  TESSERA_CHECK(it != impl_->state_by_path.end(), "the plan has no state '{}'", path);
  return impl_->plan.state[it->second];
}

void Executor::read_state(const std::string& path, void* host) const { read_state(path, 0, state(path).bytes, host); }

void Executor::write_state(const std::string& path, const void* host) { write_state(path, 0, state(path).bytes, host); }

void Executor::read_state(const std::string& path, std::int64_t offset, std::int64_t bytes, void* host) const {
  TESSERA_CHECK(offset >= 0 && offset + bytes <= state(path).bytes, "{} bytes at {} of '{}'", bytes, offset, path);
  impl_->device.copy_out(host, impl_->state_pointer(path) + offset, bytes);
}

void Executor::write_state(const std::string& path, std::int64_t offset, std::int64_t bytes, const void* host) {
  TESSERA_CHECK(offset >= 0 && offset + bytes <= state(path).bytes, "{} bytes at {} of '{}'", bytes, offset, path);
  impl_->device.copy_in(impl_->state_pointer(path) + offset, host, bytes);
}

void Executor::read_gradient(const std::string& program, const std::string& path, void* host) const {
  const auto& image = impl_->program(program);
  const auto it = image.program->gradients.find(path);
  TESSERA_CHECK(it != image.program->gradients.end(), "program {} has no gradient of '{}'", program, path);
  const auto& value = image.program->values[static_cast<std::size_t>(it->second)];
  impl_->device.copy_out(host, image.values[static_cast<std::size_t>(it->second)], value.bytes);
}

void Executor::assign_state(const std::string& to, const std::string& from) {
  const auto& target = state(to);
  const auto& source = state(from);
  TESSERA_CHECK(target.shape == source.shape && target.dtype == source.dtype, "'{}' is not as large as '{}'", from, to);
  std::vector<std::int64_t> everyone(static_cast<std::size_t>(impl_->world.size()));
  for (std::size_t rank = 0; rank < everyone.size(); ++rank) everyone[rank] = static_cast<std::int64_t>(rank);
  const auto transfers =
      box_transfers(impl_->plan.mesh, everyone, impl_->world.rank(), source.shape, source.layout, target.layout);
  impl_->world.communicator(everyone).box_exchange(impl_->state_pointer(from), transfers.sends,
                                                   impl_->state_pointer(to), transfers.receives, source.dtype);
  impl_->device.synchronize();
}

void Executor::check_replicas() const {
  const auto& plan = impl_->plan;
  if (impl_->world.size() == 1) return;
  std::vector<std::byte> host(static_cast<std::size_t>(kChunk));
  std::string own;
  for (const auto& state : plan.state) {
    std::uint64_t sum = 0;
    for (std::int64_t at = 0; at < state.bytes; at += kChunk) {
      const auto part = std::min(kChunk, state.bytes - at);
      read_state(state.variable.path, at, part, host.data());
      sum += checksum(host.data(), part / size_of(state.dtype), size_of(state.dtype), at / size_of(state.dtype));
    }
    own.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  }
  const auto all = impl_->world.gather(own);
  for (std::size_t s = 0; s < plan.state.size(); ++s) {
    const auto& state = plan.state[s];
    if (!state.layout.partial.empty()) continue;
    std::map<std::vector<std::int64_t>, std::size_t> first_holder;  // by the start of the box
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const auto box =
          mesh::owned(state.layout, plan.mesh, plan.mesh.coordinates(static_cast<std::int64_t>(rank)), state.shape)
              .front();
      const auto first = first_holder.try_emplace(box.start, rank).first->second;
      if (all[rank].compare(s * 8, 8, all[first], s * 8, 8) != 0)
        fail(ExitCode::kInternal,
             "replicas of '{}' differ: rank {} and rank {} hold different bits of {}; check that all nodes have the "
             "same processors and libraries",
             state.variable.path, first, rank, to_string(box));
    }
  }
}

const std::string& Executor::tuning() const { return impl_->tuning; }

std::vector<InstructionTime> Executor::times() const {
  return impl_->profiler ? impl_->profiler->times() : std::vector<InstructionTime>{};
}

std::int64_t Executor::pool_bytes(Pool pool) const { return impl_->allocated[static_cast<std::size_t>(pool)]; }

}  // namespace tessera::runtime
