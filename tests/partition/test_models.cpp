#include "partition/test_models.h"

#include <fmt/format.h>

namespace tessera::partition::testing {
namespace {

class Transformer {
 public:
  explicit Transformer(const TransformerConfig& config) : c_(config), g_(config.dtype) {}

  TestGraph build() && {
    const auto table = variable("emb", {c_.v, c_.d});
    const auto ids = g_.input("ids", {c_.b, c_.s}, c_.ids, DType::kI32);
    const auto mask = c_.mask ? g_.input("mask", {c_.b, c_.s}, c_.ids) : -1;
    auto x = g_.embed("embed", table, ids);
    if (c_.pin) g_.pin(x, *c_.pin);
    int encoder = -1;
    if (c_.encoder) {
      const auto own = variable("emb", {c_.v, c_.d});
      encoder = g_.embed("enc_embed", own, g_.input("src", {c_.b, c_.s}, c_.ids, DType::kI32));
      for (int l = 0; l < c_.blocks; ++l) encoder = block(encoder, -1, -1, fmt::format("_e{}", l), false);
    }
    for (int l = 0; l < c_.blocks; ++l) x = block(x, mask, encoder, fmt::format("_{}", l), c_.pin.has_value());
    x = norm("lnf", x);
    const auto z = c_.tied ? g_.einsum("head", "bsd,vd->bsv", x, table)
                           : g_.einsum("head", "bsd,dv->bsv", x, variable("head", {c_.d, c_.v}));
    const auto y = g_.input("y", {c_.b, c_.s}, c_.ids, DType::kI32);
    g_.weighted_sum("loss", "bs->", g_.sparse_cross_entropy("ce", "bsv,bs->bs", z, y));
    return std::move(g_);
  }

 private:
  int variable(const std::string& name, const Shape& shape) {
    return g_.variable(fmt::format("{}.{}", name, ++count_), shape, c_.rules(name, shape), c_.zero_stage);
  }

  int norm(const std::string& name, int x) {
    const auto gamma = variable("gamma", {c_.d});
    return g_.layer_norm(name, x, gamma, variable("beta", {c_.d}));
  }

  int attend(int x, int y, int mask, const std::string& tag) {
    const auto kv = c_.kv != 0 ? c_.kv : c_.h, e = c_.d / c_.h;
    const auto q = g_.einsum("q" + tag, "bsd,dhe->bshe", x, variable("wq", {c_.d, c_.h, e}));
    const auto k = g_.einsum("k" + tag, "bsd,dhe->bshe", y, variable("wk", {c_.d, kv, e}));
    const auto v = g_.einsum("v" + tag, "bsd,dhe->bshe", y, variable("wv", {c_.d, kv, e}));
    const auto a = g_.attention("attn" + tag, q, k, v, mask, c_.ring, c_.heads);
    return g_.einsum("o" + tag, "bshe,hed->bsd", a, variable("wo", {c_.h, e, c_.d}));
  }

  int feed_forward(int x, const std::string& tag) {
    auto u = g_.einsum("w1" + tag, "bsd,df->bsf", x, variable("w1", {c_.d, c_.f}));
    u = g_.relu("act" + tag, "bsf->bsf", g_.bias("b1" + tag, "bsf,f->bsf", u, variable("b1", {c_.f})));
    u = g_.einsum("w2" + tag, "bsf,fd->bsd", u, variable("w2", {c_.f, c_.d}));
    return g_.bias("b2" + tag, "bsd,d->bsd", u, variable("b2", {c_.d}));
  }

  int block(int x, int mask, int encoder, const std::string& tag, bool pinned) {
    std::vector<std::function<int(int)>> parts{[&](int y) { return attend(y, y, mask, tag); }};
    if (encoder >= 0) parts.emplace_back([&](int y) { return attend(y, encoder, -1, "x" + tag); });
    parts.emplace_back([&](int y) { return feed_forward(y, tag); });
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto ln = fmt::format("ln{}{}", i, tag), add = fmt::format("add{}{}", i, tag);
      const auto inside = parts[i](c_.post_norm ? x : norm(ln, x));
      x = g_.add(add, "bsd,bsd->bsd", {x, inside});
      if (pinned) g_.pin(x, *c_.pin);
      if (c_.post_norm) x = norm(ln, x);
    }
    return x;
  }

  const TransformerConfig& c_;
  TestGraph g_;
  int count_ = 0;
};

}  // namespace

Rules by_name(std::map<std::string, Dims> rules) {
  return [rules = std::move(rules)](const std::string& name, const Shape&) -> std::optional<Dims> {
    const auto found = rules.find(name);
    return found == rules.end() ? std::nullopt : std::optional(found->second);
  };
}

Rules megatron(const std::vector<std::string>& m) {
  return by_name({{"wq", {{}, m, {}}},
                  {"wk", {{}, m, {}}},
                  {"wv", {{}, m, {}}},
                  {"wo", {m, {}, {}}},
                  {"w1", {{}, m}},
                  {"b1", {m}},
                  {"w2", {m, {}}},
                  {"emb", {m, {}}},
                  {"head", {{}, m}}});
}

TestGraph mlp(std::int64_t rows, const std::vector<std::int64_t>& sizes, const Rules& rules, bool cross_entropy) {
  TestGraph g;
  auto x = g.input("x", {rows, sizes[0]});
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    const auto variable = [&](const char* kind, const Shape& shape) {
      const auto name = fmt::format("dense_{}/{}", i, kind);
      return g.variable(name, shape, rules(name, shape));
    };
    const auto kernel = variable("kernel", {sizes[i - 1], sizes[i]});
    const auto bias = variable("bias", {sizes[i]});
    x = g.bias(fmt::format("bias_{}", i), "mn,n->mn", g.einsum(fmt::format("dense_{}", i), "mk,kn->mn", x, kernel),
               bias);
    if (i + 1 < sizes.size()) x = g.relu(fmt::format("relu_{}", i), "mn->mn", x);
  }
  if (cross_entropy) {
    x = g.sparse_cross_entropy("ce", "bv,b->b", x, g.input("y", {rows}, {}, DType::kI32));
    g.weighted_sum("loss", "b->", x);
  } else {
    g.weighted_sum("loss", "bv->", g.relu("sq", "bv->bv", x));
  }
  return g;
}

TestGraph transformer(const TransformerConfig& config) { return Transformer(config).build(); }

TestGraph conv_net(std::int64_t rows, std::optional<Dims> first_kernel) {
  TestGraph g;
  auto x = g.input("x", {rows, 32, 32, 4});
  std::int64_t channels = 4;
  for (int i = 0; i < 2; ++i) {
    const std::int64_t out = i == 0 ? 32 : 64;
    const auto n = std::to_string(i);
    x = g.conv("conv" + n, x,
               g.variable("conv" + n + "/kernel", {3, 3, channels, out}, i == 0 ? first_kernel : std::nullopt));
    const auto gamma = g.variable("bn" + n + "/gamma", {out});
    x = g.batch_norm("bn" + n, x, gamma, g.variable("bn" + n + "/beta", {out}));
    x = g.pool("pool" + n, g.relu("relu" + n, "nhwc->nhwc", x));
    channels = out;
  }
  x = g.reshape("flatten", "nhwc->n(hwc)", x);
  x = g.einsum("dense", "mk,kn->mn", x, g.variable("dense/kernel", {g.shape(x)[1], 16}));
  g.weighted_sum("loss", "b->", g.sparse_cross_entropy("ce", "bv,b->b", x, g.input("y", {rows}, {}, DType::kI32)));
  return g;
}

TestGraph two_towers(std::int64_t rows, std::int64_t d, const std::map<std::string, Dims>& rules, bool regularised) {
  TestGraph g;
  const auto rule = by_name(rules);
  std::vector<int> towers;
  for (const std::string n : {"a", "b"}) {
    auto x = g.input("x" + n, {rows, d});
    const auto kernel = g.variable(n + "/kernel", {d, d}, rule("tower", {}));
    const auto bias = g.variable(n + "/bias", {d}, rule("bias", {}));
    x = g.bias("bias_" + n, "mn,n->mn", g.einsum("tower_" + n, "mk,kn->mn", x, kernel), bias);
    towers.push_back(g.relu("relu_" + n, "mn->mn", x));
  }
  const auto x = g.concat("concat", towers[0], towers[1]);
  const auto top = g.variable("top/kernel", {2 * d, 4}, rule("top", {}));
  const auto z = g.einsum("top", "mk,kn->mn", x, top);
  const auto loss =
      g.weighted_sum("loss", "b->", g.sparse_cross_entropy("ce", "bv,b->b", z, g.input("y", {rows}, {}, DType::kI32)));
  if (regularised) g.add("total", ",->", {loss, g.sum_of_squares("l2", "ab->", top)});
  return g;
}

}  // namespace tessera::partition::testing
