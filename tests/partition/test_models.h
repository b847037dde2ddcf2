#pragma once

#include <functional>

#include "partition/test_graph.h"

namespace tessera::partition::testing {

/// Where a variable lies, by its short name ("wq", "emb") and shape.
using Rules = std::function<std::optional<Dims>(const std::string& name, const Shape& shape)>;
Rules by_name(std::map<std::string, Dims> rules);
/// Megatron's tensor parallelism over the axes `axes`.
Rules megatron(const std::vector<std::string>& axes = {"model"});

/// x (rows, sizes[0]) through dense layers with relu between; sparse cross entropy, or a sum of squares.
TestGraph mlp(std::int64_t rows, const std::vector<std::int64_t>& sizes, const Rules& rules, bool cross_entropy = true);

struct TransformerConfig {
  int blocks = 1;
  std::int64_t b = 8, s = 1024, d = 1024, h = 16, f = 4096, v = 32768, kv = 0;  // kv 0: as many as h
  Rules rules = megatron();
  DType dtype = DType::kBF16;
  bool tied = false, mask = false, post_norm = false, encoder = false, ring = true, heads = true;
  int zero_stage = 0;
  std::optional<Dims> ids = std::nullopt, pin = std::nullopt;
};
TestGraph transformer(const TransformerConfig& config);

TestGraph conv_net(std::int64_t rows, std::optional<Dims> first_kernel = {});
TestGraph two_towers(std::int64_t rows, std::int64_t d, const std::map<std::string, Dims>& rules,
                     bool regularised = false);

}  // namespace tessera::partition::testing
