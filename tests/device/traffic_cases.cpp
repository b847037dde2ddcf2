#include "device/traffic_cases.h"

#include <set>

namespace tessera::device::test {
namespace {

using Cases = std::vector<TrafficCase>;

// About 100,000 elements each: rows as in real layers, and rows of an odd length.
const std::vector<Shape> kRows{{128, 768}, {96, 1024}, {24, 4096}, {96, 1001}};
const std::vector<Shape> kFlat{{65'536}, {50'003}};

const std::string kParameters = "the step's parameters, by each thread";

/// Positive numbers, whatever they are.
Tensor some(const Shape& shape, DType dtype = DType::kF32) {
  auto t = reference::zeros(shape, dtype);
  for (std::int64_t i = 0; i < t.size(); ++i) t[i] = static_cast<double>(i % 13 + 1) / (is_float(dtype) ? 16 : 1);
  return t;
}

/// Scattered over 0 .. below - 1.
Tensor scattered(const Shape& shape, std::int64_t below) {
  auto t = reference::zeros(shape, DType::kI32);
  for (std::int64_t i = 0; i < t.size(); ++i) t[i] = static_cast<double>(i * 7919 % below);
  return t;
}

Tensor scalar(DType dtype = DType::kF32) { return some({}, dtype); }

Tensor per_row(const Shape& s, DType dtype = DType::kF32) { return some({s[0]}, dtype); }
Tensor per_column(const Shape& s) { return some({s[1]}); }
Tensor sums_of_rows(const Shape& s) { return some({s[0], 2}, DType::kF64); }

/// A kernel all of whose operands follow from the shape.
template <class In, class Out>
TrafficCase of(const std::string& name, const std::string& what, const std::vector<Shape>& shapes, const In& in,
               const Out& out, const Attributes& attributes = {}, const StepParams& params = {}) {
  return {"`" + name + "`" + (what.empty() ? "" : ", " + what), shapes, [=](const Shape& s) {
            return KernelCase{
                .name = name, .inputs = in(s), .expected = out(s), .attributes = attributes, .params = params};
          }};
}

using Operands = std::vector<Operand>;

/// So many tensors of the shape.
auto like(int count) {
  return [count](const Shape& s) { return Operands(static_cast<std::size_t>(count), some(s)); };
}

Attributes dims(std::vector<std::int64_t> d) { return {{"dims", std::move(d)}}; }

void add_chains(Cases& cases) {
  const auto chain = [&](const std::string& what, const std::string& program, const auto& in) {
    cases.push_back(of("elementwise", what, kRows, in, like(1), {{"program", program}}));
  };
  chain("relu", "relu i0", like(1));
  chain("gelu backward", "gelu_grad i0 i1", like(2));
  chain("5 steps on 3 tensors", "mul i0 i1 | affine t0 2 1 | silu t1 | add t2 i2 | mul t3 t1", like(3));
  chain("bias and gelu", "add i0 i1 | gelu t0", [](const Shape& s) { return Operands{some(s), per_column(s)}; });
  cases.back().asked_again = "the bias, by each row";
  chain("times a number a row", "mul i0 i1", [](const Shape& s) { return Operands{some(s), some({s[0], 1})}; });
  cases.back().asked_again = "the number, by each element";
}

void add_sums(Cases& cases) {
  const auto sum = [&](const std::string& what, const Attributes& attributes, const auto& out) {
    cases.push_back(of("reduce_sum", what, kRows, like(1), out, attributes));
  };
  sum("of rows", dims({1}), [](const Shape& s) { return Operands{per_row(s)}; });
  sum("of columns", dims({0}), [](const Shape& s) { return Operands{per_column(s)}; });
  sum("of all", dims({0, 1}), [](const Shape&) { return Operands{scalar()}; });
  sum("of nothing", dims({}), like(1));
  const auto number = [](const Shape&) { return Operands{scalar(DType::kF64)}; };
  cases.push_back(of("sum_squares", "", kFlat, like(1), number));
  cases.push_back(of("add_n", "3 terms", kFlat, like(3), like(1)));
}

void add_softmax(Cases& cases) {
  const auto rows = [&](const std::string& name, const auto& in, const auto& out, bool log = false) {
    cases.push_back(of(name, log ? "log" : "", kRows, in, out, {{"log", log}}));
  };
  const auto row = [](const Shape& s) { return Operands{per_row(s)}; };
  for (const bool log : {false, true}) {
    rows("softmax", like(1), like(1), log);
    rows("softmax_backward", like(2), like(1), log);
  }
  rows("row_max", like(1), row);
  rows(
      "row_sum_exp",
      [](const Shape& s) {
        return Operands{some(s), per_row(s)};
      },
      row);
  rows(
      "softmax_finish",
      [](const Shape& s) {
        return Operands{some(s), per_row(s), per_row(s)};
      },
      like(1));
  rows("row_dot", like(2), row);
  rows(
      "softmax_backward_finish",
      [](const Shape& s) {
        return Operands{some(s), some(s), per_row(s)};
      },
      like(1));
}

/// Around layer normalisation with gamma and beta. `needs`: of the backward kernels.
void add_layer_norm(Cases& cases) {
  const auto norm = [&](const std::string& name, const std::string& what, const std::vector<Shape>& shapes,
                        const auto& in, const auto& out, const std::string& needs = "") {
    Attributes attributes{{"epsilon", 1e-3}, {"scale", true}, {"center", true}};
    if (!needs.empty()) attributes.set("needs", needs);
    cases.push_back(of(name, what, shapes, in, out, attributes));
    if (name != "row_moments") cases.back().asked_again = "gamma and beta, by each row";
  };
  const auto y = [](const Shape& s) { return Operands{some(s), per_row(s), per_row(s)}; };
  const auto sums = [](const Shape& s) { return Operands{sums_of_rows(s)}; };
  norm(
      "layer_norm", "", kRows,
      [](const Shape& s) {
        return Operands{some(s), per_column(s), per_column(s)};
      },
      y);
  norm("row_moments", "", kRows, like(1), sums);
  norm(
      "layer_norm_finish", "", kRows,
      [](const Shape& s) {
        return Operands{some(s), sums_of_rows(s), per_column(s), per_column(s)};
      },
      y);

  const auto backward = [](const Shape& s) {
    return Operands{some(s), some(s), per_row(s), per_row(s), per_column(s)};
  };
  const auto finish = [](const Shape& s) {
    return Operands{some(s), some(s), per_row(s), per_row(s), sums_of_rows(s), per_column(s)};
  };
  const auto all = [](const Shape& s) { return Operands{some(s), per_column(s), per_column(s)}; };
  // Of longer rows only thousands make the partial sums of dgamma and dbeta small beside them: see their formula.
  const std::vector<Shape> many{{128, 768}, {96, 1024}, {96, 1001}};
  norm("layer_norm_backward", "all", many, backward, all, "xgb");
  norm("layer_norm_backward", "dx", kRows, backward, like(1), "x");
  norm("layer_norm_backward_sums", "", kRows, backward, sums);
  norm("layer_norm_backward_finish", "all", many, finish, all, "xgb");
}

/// Bytes of the different rows that are looked up.
std::int64_t looked_up(const Tensor& ids, std::int64_t cols) {
  return std::ssize(std::set<double>(ids.data.begin(), ids.data.end())) * cols * 4;
}

/// The shapes are of the table.
void add_embedding(Cases& cases) {
  constexpr std::int64_t kIds = 150;
  const std::vector<Shape> tables{{300, 768}, {250, 1024}, {250, 1001}};
  const auto ids = [](const Shape& s) { return scattered({kIds}, s[0] * 2 / 3); };
  const auto y = [](const Shape& s) { return some({kIds, s[1]}); };
  cases.push_back(of(
      "embedding", "150 ids", tables,
      [=](const Shape& s) {
        return Operands{some(s), ids(s)};
      },
      [=](const Shape& s) { return Operands{y(s)}; }));
  cases.back().minimum = [](const KernelCase& c) {
    const auto cols = c.inputs[0].tensor.cols();
    return looked_up(c.inputs[1].tensor, cols) + kIds * 4 + kIds * cols * 4;
  };
  cases.back().which_minimum = "of the table the rows looked up";
  cases.back().asked_again = "ids and rows, by each use";

  const auto in = [=](const Shape& s) { return Operands{ids(s), y(s)}; };
  cases.push_back(of("embedding_backward", "150 ids", tables, in, like(1)));
  cases.back().asked_again = "ids and their order, by each piece of a row";
  cases.push_back(of("embedding_backward", "150 ids, accumulating", tables, in, like(1), {{"accumulate", true}},
                     {.micro_batch = 1}));
  cases.back().minimum = [](const KernelCase& c) {
    const auto cols = c.expected[0].tensor.cols();
    return kIds * 4 + kIds * cols * 4 + 2 * looked_up(c.inputs[0].tensor, cols);
  };
  cases.back().which_minimum = "of the gradient the rows of ids, read and written";
  cases.back().asked_again = "ids and their order, by each piece of a row";
}

void add_losses(Cases& cases) {
  const auto row = [](const Shape& s) { return Operands{per_row(s)}; };
  const auto two = [](const Shape& s) { return Operands{per_row(s), per_row(s)}; };
  const auto labels = [](const Shape& s) { return scattered({s[0]}, s[1]); };
  const auto with_slope = [](const Shape& s) { return Operands{some(s), some(s), per_row(s)}; };
  for (const std::string loss : {"mse", "binary_crossentropy"}) {
    cases.push_back(of("row_loss", loss, kRows, like(2), row, {{"loss", loss}}));
    cases.push_back(of("row_loss_backward", loss, kRows, with_slope, like(1), {{"loss", loss}}));
  }
  for (const bool logits : {true, false}) {
    const Attributes attributes{{"from_logits", logits}};
    const std::string what = logits ? "logits" : "probabilities";
    cases.push_back(of("categorical_crossentropy", what, kRows, like(2), row, attributes));
    cases.push_back(of("categorical_crossentropy_backward", what, kRows, with_slope, like(1), attributes));
    cases.push_back(of(
        "sparse_crossentropy", what, kRows,
        [=](const Shape& s) {
          return Operands{some(s), labels(s)};
        },
        two, attributes));
    cases.push_back(of(
        "sparse_crossentropy_backward", what, kRows,
        [=](const Shape& s) {
          return Operands{some(s), labels(s), per_row(s), per_row(s)};
        },
        like(1), attributes));
    if (logits) continue;
    cases.back().asked_again = "a row's numbers, by each of its threads";
    cases.back().minimum = [](const KernelCase& c) { return operand_bytes(c) - 4 * c.inputs[2].tensor.size(); };
    cases.back().which_minimum = "all but lse";
  }
  cases.push_back(of(
      "row_sum_exp_picked", "", kRows,
      [=](const Shape& s) {
        return Operands{some(s), per_row(s), labels(s)};
      },
      [](const Shape& s) {
        return Operands{some({s[0], 2})};
      }));
  cases.push_back(of(
      "sparse_crossentropy_finish", "", kFlat,
      [](const Shape& s) {
        return Operands{some(s), some({s[0], 2}), scattered(s, 1000)};
      },
      like(2)));
}

void add_weighted(Cases& cases) {
  const auto weighted = [&](const std::string& name, const std::string& what, const std::vector<Shape>& shapes,
                            const auto& in, const auto& out, const Attributes& attributes) {
    cases.push_back(of(name, what, shapes, in, out, attributes, {.real_rows = 1 << 30}));
  };
  const std::string rows = "rows";
  const auto number = [](const Shape&) { return Operands{scalar()}; };
  const auto count = [](const Shape&) { return Operands{scalar(DType::kF64)}; };
  weighted("weighted_sum", "", kFlat, like(1), number, {{"denominator", rows}});
  weighted("weighted_sum", "weights", kFlat, like(2), number, {{"weights", true}, {"denominator", rows}});
  weighted("weighted_sum", "weights of rows", {{256, 512}, {128, 1001}},
           [](const Shape& s) {
             return Operands{some(s), per_row(s)};
           },
           number, {{"weights", true}});
  cases.back().asked_again = "the weight, by each element";
  weighted("weighted_sum_backward", "weights", kFlat,
           [](const Shape& s) {
             return Operands{scalar(), some(s)};
           },
           like(1), {{"weights", true}, {"denominator", rows}});
  cases.back().asked_again = kParameters;
  const Attributes ignore{{"ignore_class", std::int64_t{2}}};
  weighted(
      "count_valid", "", kFlat, [](const Shape& s) { return Operands{scattered(s, 10)}; }, count, ignore);
  weighted(
      "sum_weights", "labels", kFlat,
      [](const Shape& s) {
        return Operands{some(s), scattered(s, 10)};
      },
      count, ignore);
  const auto match = [&](const std::string& kind, const auto& in) {
    weighted("match_rows", kind, kRows, in, [](const Shape& s) { return Operands{per_row(s)}; }, {{"kind", kind}});
  };
  match("binary", like(2));
  match("categorical", like(2));
  match("sparse", [](const Shape& s) { return Operands{some(s), scattered({s[0]}, s[1])}; });
  weighted("metric_accumulate", "weights", kFlat, like(2),
           [](const Shape&) { return Operands{some({2}, DType::kF64)}; }, {});
}

void add_updates(Cases& cases) {
  const auto flat = [&](const std::string& name, const std::string& what, int in, int out,
                        const Attributes& attributes) {
    cases.push_back(of(name, what, kFlat, like(in), like(out), attributes, {.iteration = 1, .learning_rate = 0.1}));
    if (name.ends_with("_update") && in + out < 7) cases.back().asked_again = kParameters;
  };
  cases.push_back(of("clip_by_norm", "", kFlat,
                     [](const Shape& s) {
                       return Operands{some(s), scalar(DType::kF64)};
                     },
                     like(1), {{"norm", 1.0}, {"global", true}}));
  flat("accumulate_gradient", "", 2, 1, {});
  flat("average_gradient", "", 2, 2, {{"steps", 4.0}});
  flat("sgd_update", "", 2, 1, {});
  flat("sgd_update", "momentum", 3, 2, {{"momentum", 0.9}});
  const Attributes adam{{"beta_1", 0.9}, {"beta_2", 0.999}, {"epsilon", 1e-7}, {"weight_decay", 0.01}};
  flat("adam_update", "", 4, 3, adam);
  auto amsgrad = adam;
  amsgrad.set("amsgrad", true);
  flat("adam_update", "amsgrad", 5, 4, amsgrad);
  const Attributes rmsprop{{"rho", 0.9}, {"epsilon", 1.0}};
  flat("rmsprop_update", "", 3, 2, rmsprop);
  auto all = rmsprop;
  all.set("centered", true);
  all.set("momentum", 0.9);
  flat("rmsprop_update", "centered, momentum", 5, 4, all);
  flat("ema_update", "", 2, 1, {{"momentum", 0.99}});
  flat("ema_overwrite", "at its turn", 2, 1, {{"frequency", std::int64_t{2}}});
  cases.back().minimum = [](const KernelCase& c) { return 2 * 4 * c.expected[0].tensor.size(); };
  cases.back().which_minimum = "the average and the variable, once";
  cases.back().asked_again = kParameters;
}

void add_movements(Cases& cases) {
  const auto cast = [&](const std::string& what, DType from, DType to) {
    cases.push_back(of(
        "cast", what, kFlat, [=](const Shape& s) { return Operands{some(s, from)}; },
        [=](const Shape& s) { return Operands{some(s, to)}; }));
  };
  cast("f32 to bf16", DType::kF32, DType::kBF16);
  cast("f16 to f32", DType::kF16, DType::kF32);
  cast("u8 to f32", DType::kU8, DType::kF32);
  cases.push_back(of("dropout", "", kRows, like(1), like(1), {{"rate", 0.25}, {"key", std::int64_t{5}}}, {.step = 1}));
  cases.back().asked_again = kParameters;
  cases.push_back(of("fill", "", kFlat, like(0), like(1), {{"value", 7.0}}));
  cases.push_back(of("copy", "", kFlat, like(1), like(1)));
  cases.push_back(of("keep_or_zero", "keep", kFlat, like(1), like(1), {{"keep", true}}));
  cases.push_back(of("keep_or_zero", "zero", kFlat, like(1), like(1), {{"keep", false}}));
  const auto only_written = [](const KernelCase& c) { return 4 * c.expected[0].tensor.size(); };
  cases.back().minimum = only_written;
  cases.back().which_minimum = "the output alone";

  // y is the shape; x has so many columns more on each side, or fewer.
  const auto box = [&](const std::string& what, std::int64_t more) {
    cases.push_back({"`copy_box`, " + what, kRows, [=](const Shape& s) {
                       const Shape whole{s[0], s[1] + 16};
                       return KernelCase{.name = "copy_box",
                                         .inputs = {Operand(some({s[0], s[1] + 2 * more}), whole, {0, 8 - more})},
                                         .expected = {Operand(some(s), whole, {0, 8})}};
                     }});
  };
  box("a slice of columns", 8);
  cases.back().minimum = [](const KernelCase& c) { return 2 * 4 * c.expected[0].tensor.size(); };
  cases.back().which_minimum = "what lies in the box";
  box("padding of columns", -8);
  cases.push_back(of(
      "broadcast_to", "rows", kRows, [](const Shape& s) { return Operands{per_column(s)}; }, like(1)));
  cases.back().asked_again = "x, by each row";

  const Attributes four{{"dim", std::int64_t{1}}, {"parts", std::int64_t{4}}};
  const auto wide = [](const Shape& s) { return Operands{some({s[0] / 4, 4 * s[1]})}; };
  const auto packed = [](const Shape& s) { return Operands{some({4, s[0] / 4, s[1]})}; };
  cases.push_back(of("pack", "4 parts", kRows, wide, packed, four));
  cases.push_back(of("unpack", "4 parts", kRows, packed, wide, four));
  const auto parts = [](const Shape& s) { return Operands{some(s), some({s[0], 64}), some({s[0], 8})}; };
  const auto joined = [](const Shape& s) { return Operands{some({s[0], s[1] + 72})}; };
  cases.push_back(of("concat", "columns", kRows, parts, joined, {{"dim", std::int64_t{1}}}));
  cases.push_back({"`split`, columns", kRows, [=](const Shape& s) {
                     return KernelCase{.name = "split",
                                       .inputs = joined(s),
                                       .expected = parts(s),
                                       .attributes = {{"dim", std::int64_t{1}},
                                                      {"sizes", std::vector<std::int64_t>{s[1], 64, 8}},
                                                      {"which", std::vector<std::int64_t>{0, 1, 2}}}};
                   }});
}

}  // namespace

std::int64_t operand_bytes(const KernelCase& c) {
  std::int64_t sum = 0;
  for (const auto* operands : {&c.inputs, &c.expected})
    for (const auto& o : *operands) sum += o.tensor.size() * size_of(o.tensor.dtype);
  return sum;
}

std::vector<TrafficCase> traffic_cases() {
  Cases cases;
  add_chains(cases);
  add_sums(cases);
  add_softmax(cases);
  add_layer_norm(cases);
  add_embedding(cases);
  add_losses(cases);
  add_weighted(cases);
  add_updates(cases);
  add_movements(cases);
  return cases;
}

}  // namespace tessera::device::test
