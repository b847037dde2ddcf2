#include "device/cuda/matmul.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "core/philox.h"
#include "device/cuda/check.h"
#include "device/cuda/elementwise.h"
#include "device/cuda/kernels.h"
#include "device/cuda/scratch.h"

namespace tessera::device::cuda {
namespace {

/// What cuBLASLt may take over of bias and activation; nullopt: nothing, or not all that comes before the residual.
std::optional<BlasEpilogue> fused_epilogue(const MatmulSpec& spec) {
  if (spec.activation.empty()) return spec.bias ? std::optional(BlasEpilogue::kBias) : std::nullopt;
  if (spec.activation == "relu") return spec.bias ? BlasEpilogue::kReluBias : BlasEpilogue::kRelu;
  if (spec.activation == "gelu_tanh") return spec.bias ? BlasEpilogue::kGeluBias : BlasEpilogue::kGelu;
  return std::nullopt;
}

/// How a `matmul` is computed.
struct Choice {
  bool fused = false;
  cublasLtMatmulAlgo_t algorithm{};
};

// In a tuning it is one word: the kind, and the algorithm's bytes in hexadecimal.
constexpr std::string_view kFused = "fused:", kPlain = "plain:";

std::string to_word(const Choice& choice) {
  std::array<unsigned char, sizeof choice.algorithm> bytes{};
  std::memcpy(bytes.data(), &choice.algorithm, bytes.size());
  std::string word(choice.fused ? kFused : kPlain);
  for (const auto byte : bytes) word += fmt::format("{:02x}", byte);
  return word;
}

Choice choice_of(const std::string& word) {
  Choice choice{word.starts_with(kFused), {}};
  std::array<unsigned char, sizeof choice.algorithm> bytes{};
  TESSERA_CHECK((choice.fused || word.starts_with(kPlain)) && word.size() == kFused.size() + 2 * bytes.size(),
                "'{}' is no choice for a matmul", word);
  for (std::size_t k = 0; k < bytes.size(); ++k)
    bytes[k] = static_cast<unsigned char>(std::stoi(word.substr(kFused.size() + 2 * k, 2), nullptr, 16));
  std::memcpy(&choice.algorithm, bytes.data(), bytes.size());
  return choice;
}

std::string problem_of(const MatmulSpec& spec) {
  return fmt::format("{}{}{}{} {}", to_string(spec.shape), spec.accumulate ? " accumulate" : "",
                     spec.bias ? " bias" : "", spec.residual ? " residual" : "",
                     spec.activation.empty() ? "linear" : spec.activation);
}

/// Bytes to which an operand's address is aligned: it may begin at any row of a larger tensor.
std::uint32_t alignment_of(const TensorSpec& tensor) {
  const auto row = tensor.shape.empty() || tensor.shape[0] == 0 ? 1 : elements(tensor.shape) / tensor.shape[0];
  return static_cast<std::uint32_t>(std::gcd(std::int64_t{16}, row * size_of(tensor.dtype)));
}

/// A product with what follows it.
class CudaMatmul {
 public:
  CudaMatmul(const MatmulSpec& spec, bool fused, const Context& context)
      : spec_(spec),
        fused_(fused),
        blas_(context.blas.get()),
        workspace_(context.scratch.take<void>(blas_workspace_bytes(spec.shape))) {
    const auto& [m, n, k, transpose_a, transpose_b] = spec.shape;
    if (m * n * k > 0)
      product_.emplace(spec.shape, fused ? *fused_epilogue(spec) : BlasEpilogue::kNone, context.tensor_float_32);
    if (m * n > 0 && ((spec.bias && !fused) || spec.residual || (!spec.activation.empty() && !fused)))
      after_.emplace(parse_chain(spec.epilogue(fused, fused), spec.epilogue_shapes(fused), {m, n}, {}));
  }

  std::vector<cublasLtMatmulAlgo_t> algorithms(const KernelSpec& kernel, int most) const {
    return product_->algorithms(
        blas_, {alignment_of(kernel.inputs[0]), alignment_of(kernel.inputs[1]), alignment_of(kernel.outputs[0])}, most);
  }
  void use(const cublasLtMatmulAlgo_t& algorithm) { algorithm_ = algorithm; }

  /// operands: a, b [, bias] [, residual].
  void run(const void* const* operands, void* y, bool add, cudaStream_t stream) const {
    const auto f32 = [&](int k) { return static_cast<const float*>(operands[k]); };
    if (product_) {
      product_->run(blas_, algorithm_,
                    {f32(0), f32(1), fused_ && spec_.bias ? f32(2) : nullptr, static_cast<float*>(y), add ? 1.0F : 0.0F,
                     workspace_},
                    stream);
    } else if (!add && spec_.shape.m * spec_.shape.n > 0) {  // nothing to sum over
      const auto bytes = static_cast<std::size_t>(spec_.shape.m * spec_.shape.n) * sizeof(float);
      check(cudaMemsetAsync(y, 0, bytes, stream), "cudaMemsetAsync");
    }
    if (!after_) return;
    std::array<const void*, 3> inputs{y};
    std::size_t count = 1;
    if (spec_.bias && !fused_) inputs[count++] = operands[2];
    if (spec_.residual) inputs[count] = operands[spec_.bias ? 3 : 2];
    after_->run(inputs.data(), &y, stream);
  }

 private:
  MatmulSpec spec_;
  bool fused_;
  cublasLtHandle_t blas_;
  void* workspace_;
  std::optional<BlasProduct> product_;  // absent: the sum has no terms
  cublasLtMatmulAlgo_t algorithm_{};
  std::optional<ChainLauncher> after_;
};

/// What is worth timing, the library's favourite of the fused product first.
std::vector<Choice> candidates(const KernelSpec& kernel, const MatmulSpec& spec, const Context& context, int most) {
  std::vector<Choice> list;
  for (const bool fused : {true, false}) {
    if (fused && !fused_epilogue(spec)) continue;
    for (const auto& algorithm : CudaMatmul(spec, fused, context).algorithms(kernel, most))
      list.push_back({fused, algorithm});
  }
  require(kernel, !list.empty(), "cuBLASLt offers no algorithm");
  return list;
}

/// Random operands: products of zeros take less power and so less time.
DeviceMemory random_operand(std::int64_t count, cudaStream_t stream) {
  auto memory = device_memory(count * static_cast<std::int64_t>(sizeof(float)));
  constexpr std::int64_t kPart = 1 << 20;
  const auto host = host_memory(kPart * static_cast<std::int64_t>(sizeof(float)));
  auto* values = static_cast<float*>(host.get());
  for (std::int64_t i = 0; i < std::min(kPart, count); ++i)
    values[i] = static_cast<float>(uniform_01(philox_bits(1, static_cast<std::uint64_t>(i), 0)) - 0.5);
  for (std::int64_t at = 0; at < count; at += kPart)
    check(cudaMemcpyAsync(static_cast<float*>(memory.get()) + at, values,
                          static_cast<std::size_t>(std::min(kPart, count - at)) * sizeof(float), cudaMemcpyHostToDevice,
                          stream),
          "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return memory;
}

/// Milliseconds of the median of some runs.
float time_of(const CudaMatmul& matmul, const void* const* operands, void* y, cudaStream_t stream) {
  constexpr int kRuns = 5;
  const auto begin = make_event(true), end = make_event(true);
  std::array<float, kRuns> times{};
  matmul.run(operands, y, false, stream);  // loads what is loaded at first use
  for (auto& time : times) {
    check(cudaEventRecord(begin.get(), stream), "cudaEventRecord");
    matmul.run(operands, y, false, stream);
    check(cudaEventRecord(end.get(), stream), "cudaEventRecord");
    check(cudaEventSynchronize(end.get()), "cudaEventSynchronize");
    check(cudaEventElapsedTime(&time, begin.get(), end.get()), "cudaEventElapsedTime");
  }
  std::sort(times.begin(), times.end());
  return times[kRuns / 2];
}

const Choice& fastest(const std::vector<Choice>& list, const KernelSpec& kernel, const MatmulSpec& spec,
                      const Context& context) {
  const auto stream = context.stream(Stream::kCompute);
  std::vector<DeviceMemory> memory;
  std::vector<const void*> operands;
  for (const auto& input : kernel.inputs) {
    memory.push_back(random_operand(elements(input.shape), stream));
    operands.push_back(memory.back().get());
  }
  const auto y = random_operand(elements(kernel.outputs[0].shape), stream);
  std::size_t best = 0;
  float least = std::numeric_limits<float>::infinity();
  for (std::size_t k = 0; k < list.size(); ++k) {
    CudaMatmul matmul(spec, list[k].fused, context);
    matmul.use(list[k].algorithm);
    if (const auto time = time_of(matmul, operands.data(), y.get(), stream); time < least) {
      least = time;
      best = k;
    }
  }
  return list[best];
}

}  // namespace

bool choose_matmul(const KernelSpec& kernel, Context& context) {
  const auto spec = parse_matmul(kernel);
  const auto problem = problem_of(spec);
  const auto& s = spec.shape;
  constexpr double kUntimed = 1e8;  // flops: about 2 us on an H200, what a launch takes
  if (context.tuning.find(problem) || 2.0 * s.m * s.n * s.k < kUntimed) return false;
  const auto list = candidates(kernel, spec, context, 8);
  try {
    context.tuning.set(problem, to_word(list.size() == 1 ? list[0] : fastest(list, kernel, spec, context)));
  } catch (const Error& error) {
    if (error.code() != ExitCode::kOutOfMemory) throw;
    return false;  // no room beside the pools: the library's favourite
  }
  return true;
}

std::unique_ptr<Kernel> make_matmul(const KernelSpec& kernel, Context& context, Stream stream) {
  const auto spec = parse_matmul(kernel);
  const auto& s = spec.shape;
  Choice choice;
  if (s.m * s.n * s.k > 0) {
    const auto tuned = context.tuning.find(problem_of(spec));
    choice = tuned ? choice_of(*tuned) : candidates(kernel, spec, context, 1)[0];
  }
  auto matmul = std::make_shared<CudaMatmul>(spec, choice.fused, context);
  matmul->use(choice.algorithm);
  return kernel_of(context, stream, [matmul, accumulate = spec.accumulate](const Args& args) {
    matmul->run(args.inputs, args.outputs[0], accumulate && args.micro_batch > 0, args.stream);
  });
}

}  // namespace tessera::device::cuda
