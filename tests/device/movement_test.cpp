// Copies, casts, boxes, packing; embedding and dropout.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/philox.h"
#include "device/harness.h"
#include "reference/ops.h"

namespace tessera::device::test {
namespace {

using reference::random;
using reference::random_integers;
using reference::reshaped;

TEST(Copy, MovesEveryDType) {
  for (const auto n : {0, 1, 100'000}) {
    auto x = random_integers({n}, 1, 0, 100);
    for (const auto dtype : {DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kU8, DType::kBF16}) {
      x.dtype = dtype;
      expect_kernel({.name = "copy", .inputs = {x}, .expected = {x}});
      for (const bool keep : {false, true})
        expect_kernel({.name = "keep_or_zero",
                       .inputs = {x},
                       .expected = {keep ? x : reference::zeros({n}, dtype)},
                       .attributes = {{"keep", keep}},
                       .in_place = {{0, 0}}});
    }
  }
}

TEST(Fill, WritesTheValueInEveryDType) {
  for (const auto dtype : {DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kU8}) {
    auto y = reference::zeros({1000}, dtype);
    for (auto& v : y.data) v = 7;
    expect_kernel({.name = "fill", .expected = {y}, .attributes = {{"value", 7.0}}});
  }
}

TEST(Cast, RoundsToNearestEvenAndTowardsZeroToIntegers) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const auto expect = [](const Tensor& x, const Tensor& y) {
    expect_kernel({.name = "cast", .inputs = {x}, .expected = {y}, .tolerance = 0});
  };
  expect({{4}, {0, 16, 255, 3}, DType::kU8}, {{4}, {0, 16, 255, 3}});
  expect({{6}, {1.9, -1.9, 3e9, -3e9, nan, 5}}, {{6}, {1, -1, 2147483647, -2147483648.0, 0, 5}, DType::kI32});
  expect({{3}, {0.5, 0, nan}}, {{3}, {1, 0, 1}, DType::kBool});
  expect({{2}, {1e300, 0.1}, DType::kF64}, {{2}, {inf, static_cast<double>(0.1F)}});
  expect({{2}, {3, -4}, DType::kI64}, {{2}, {3, -4}, DType::kI32});
  // 1 + 2^-8 lies between two bf16: to the even one. Then back.
  expect({{4}, {1, 1.00390625, 1.01171875, -2}}, {{4}, {0x3F80, 0x3F80, 0x3F82, 0xC000}, DType::kBF16});
  expect({{3}, {0x3F80, 0x3F82, 0xC000}, DType::kBF16}, {{3}, {1, 1.015625, -2}});
  expect({{6}, {1, 65504, 65520, 5.9604645e-8, 1.00048828125, -0.5}},
         {{6}, {0x3C00, 0x7BFF, 0x7C00, 1, 0x3C00, 0xB800}, DType::kF16});
  expect({{5}, {0x3C00, 0x7BFF, 0x7C00, 1, 0xB800}, DType::kF16}, {{5}, {1, 65504, inf, 0x1p-24, -0.5}});
}

TEST(Cast, OfEverySizeGivesTheSameNumbers) {
  for (const std::int64_t n : {0, 1, 31, 33, 255, 1025, 5000})
    for (const auto from : {DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kU8})
      for (const auto to : {DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kU8})
        for (const std::int64_t shift : {0, 1}) {
          auto x = random_integers({n}, 1, 0, 256);
          auto y = x;
          x.dtype = from;
          y.dtype = to;
          expect_kernel({.name = "cast", .inputs = {x}, .expected = {y}, .tolerance = 0, .shift = shift});
        }
}

TEST(CopyBox, CutsAndPads) {
  const auto whole = random({5, 6, 7}, 1);
  const auto x = part_of(whole, {1, 0, 2}, {3, 6, 4});
  for (const auto& [start, size] : {std::pair{Shape{1, 0, 2}, Shape{3, 6, 4}},
                                    {Shape{2, 3, 3}, Shape{1, 2, 2}},
                                    {Shape{0, 0, 0}, Shape{5, 6, 7}},
                                    {Shape{3, 5, 0}, Shape{2, 1, 3}},
                                    {Shape{0, 0, 0}, Shape{1, 6, 7}},
                                    {Shape{1, 0, 0}, Shape{3, 6, 2}}}) {
    auto y = part_of(whole, start, size);
    for (std::int64_t i = 0; i < y.tensor.size(); ++i) {
      const Shape at{start[0] + i / (size[1] * size[2]), start[1] + i / size[2] % size[1], start[2] + i % size[2]};
      for (std::size_t d = 0; d < 3; ++d)
        if (at[d] < x.start[d] || at[d] >= x.start[d] + x.tensor.shape[d]) y.tensor[i] = 0;
    }
    expect_kernel({.name = "copy_box", .inputs = {x}, .expected = {y}, .tolerance = 0});
  }
  expect_kernel({.name = "copy_box", .inputs = {random({}, 1)}, .expected = {random({}, 1)}});
}

constexpr DType kOfEachSize[] = {DType::kU8, DType::kBF16, DType::kI32, DType::kF64};

/// Numbers that every dtype of kOfEachSize holds.
Tensor counted(const Shape& shape, DType dtype) {
  auto x = reference::zeros(shape, dtype);
  for (std::int64_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i % 251 + 1);
  return x;
}

TEST(CopyBox, CutsAndPadsRowsOfEveryWidth) {
  for (const auto dtype : kOfEachSize)
    for (const std::int64_t cols : {15, 16, 24, 257})
      for (const auto& [first, size] : {std::pair<std::int64_t, std::int64_t>{0, cols},
                                        {-16, cols + 16},
                                        {3, cols},
                                        {8, 4},
                                        {-5, 4},
                                        {cols - 1, 8}})
        for (const std::int64_t shift : {0, 1}) {
          const auto x = counted({9, 3, cols}, dtype);
          auto y = reference::zeros({11, 3, size}, dtype);
          for (std::int64_t i = 0; i < y.size(); ++i) {
            const auto row = i / (3 * size) - 1, col = i % size + first;
            if (row >= 0 && row < 9 && col >= 0 && col < cols) y[i] = x[(row * 3 + i / size % 3) * cols + col];
          }
          const Shape global{100, 3, 1000};
          expect_kernel({.name = "copy_box",
                         .inputs = {Operand(x, global, {21, 0, 100})},
                         .expected = {Operand(y, global, {20, 0, 100 + first})},
                         .tolerance = 0,
                         .shift = shift});
        }
}

TEST(CopyBox, PadsAVector) {
  for (const std::int64_t size : {15, 16, 255, 1026}) {
    const auto x = counted({size}, DType::kF32);
    auto y = reference::zeros({1028});
    for (std::int64_t i = 0; i < size; ++i) y[i] = x[i];
    expect_kernel({.name = "copy_box", .inputs = {x}, .expected = {y}, .tolerance = 0});
  }
}

TEST(BroadcastTo, RepeatsAsNumpy) {
  const Shape shape{3, 4, 5};
  for (const Shape& from :
       {Shape{3, 4, 5}, Shape{1, 4, 5}, Shape{4, 1}, Shape{5}, Shape{1}, Shape{}, Shape{3, 1, 5}, Shape{3, 1, 1}}) {
    const auto x = random(from, 1);
    auto y = reference::zeros(shape);
    for (std::int64_t i = 0; i < y.size(); ++i) {
      const Shape at{i / 20, i / 5 % 4, i % 5};
      std::int64_t k = 0;
      for (std::size_t d = 0; d < from.size(); ++d) k = k * from[d] + (from[d] == 1 ? 0 : at[3 - from.size() + d]);
      y[i] = x[k];
    }
    expect_kernel({.name = "broadcast_to", .inputs = {x}, .expected = {y}});
  }
}

TEST(Pack, MakesChunksContiguousAndUnpackUndoesIt) {
  const auto x = random({3, 8, 5}, 1);
  auto y = reference::zeros({4, 3, 2, 5});
  for (std::int64_t a = 0; a < 3; ++a)
    for (std::int64_t nb = 0; nb < 8; ++nb)
      for (std::int64_t c = 0; c < 5; ++c) y[((nb / 2 * 3 + a) * 2 + nb % 2) * 5 + c] = x[(a * 8 + nb) * 5 + c];
  const Attributes attributes{{"dim", std::int64_t{1}}, {"parts", std::int64_t{4}}};
  expect_kernel({.name = "pack", .inputs = {x}, .expected = {y}, .attributes = attributes});
  expect_kernel({.name = "unpack", .inputs = {y}, .expected = {x}, .attributes = attributes});
}

TEST(Pack, MovesChunksOfEveryWidth) {
  for (const auto dtype : kOfEachSize)
    for (const std::int64_t run : {1, 3, 4, 16, 100})
      for (const std::int64_t outer : {1, 5, 70})
        for (const std::int64_t shift : {0, 1}) {
          constexpr std::int64_t kParts = 3;
          const auto x = counted({outer, kParts * run}, dtype);
          auto y = reference::zeros({kParts, outer, run}, dtype);
          for (std::int64_t i = 0; i < y.size(); ++i)
            y[i] = x[(i / run % outer * kParts + i / (run * outer)) * run + i % run];
          const Attributes attributes{{"dim", std::int64_t{1}}, {"parts", kParts}};
          expect_kernel({.name = "pack", .inputs = {x}, .expected = {y}, .attributes = attributes, .shift = shift});
          expect_kernel({.name = "unpack", .inputs = {y}, .expected = {x}, .attributes = attributes, .shift = shift});
        }
}

TEST(Concat, OfColumnsOfEveryWidthAndSplitUndoesIt) {
  for (const auto dtype : kOfEachSize)
    for (const auto& cols : {std::vector<std::int64_t>{16, 32, 8}, {1, 255, 4}, {0, 3}, {64}})
      for (const std::int64_t shift : {0, 1}) {
        constexpr std::int64_t kRows = 33;
        std::int64_t sum = 0;
        for (const auto c : cols) sum += c;
        const auto whole = counted({kRows, sum}, dtype);
        std::vector<Operand> parts;
        std::vector<std::int64_t> which;
        for (std::int64_t at = 0; const auto c : cols) {
          auto part = reference::zeros({kRows, c}, dtype);
          for (std::int64_t i = 0; i < part.size(); ++i) part[i] = whole[i / c * sum + at + i % c];
          parts.emplace_back(part);
          which.push_back(std::ssize(which));
          at += c;
        }
        expect_kernel({.name = "concat",
                       .inputs = parts,
                       .expected = {whole},
                       .attributes = {{"dim", std::int64_t{1}}},
                       .shift = shift});
        expect_kernel({.name = "split",
                       .inputs = {whole},
                       .expected = parts,
                       .attributes = {{"dim", std::int64_t{1}}, {"sizes", cols}, {"which", which}},
                       .shift = shift});
      }
}

TEST(Concat, JoinsAndSplitUndoesIt) {
  const auto a = random({2, 3, 4}, 1), b = random({2, 1, 4}, 2), c = random({2, 2, 4}, 3);
  auto y = reference::zeros({2, 6, 4});
  for (std::int64_t i = 0; i < y.size(); ++i) {
    const auto o = i / 24, d = i / 4 % 6, e = i % 4;
    y[i] = d < 3 ? a[(o * 3 + d) * 4 + e] : d < 4 ? b[o * 4 + e] : c[(o * 2 + d - 4) * 4 + e];
  }
  const std::vector<std::int64_t> sizes{3, 1, 2};
  expect_kernel({.name = "concat", .inputs = {a, b, c}, .expected = {y}, .attributes = {{"dim", std::int64_t{1}}}});
  expect_kernel(
      {.name = "split",
       .inputs = {y},
       .expected = {a, b, c},
       .attributes = {{"dim", std::int64_t{1}}, {"sizes", sizes}, {"which", std::vector<std::int64_t>{0, 1, 2}}}});
  expect_kernel({.name = "split",
                 .inputs = {y},
                 .expected = {c},
                 .attributes = {{"dim", std::int64_t{1}}, {"sizes", sizes}, {"which", std::vector<std::int64_t>{2}}}});
}

TEST(Embedding, LooksUpAndItsGradientEqualsFiniteDifferences) {
  for (const auto cols : {1, 8, 33}) {
    const auto table = random({11, cols}, 1);
    const auto ids = random_integers({4, 6}, 2, 0, 11);
    expect_kernel({.name = "embedding", .inputs = {table, ids}, .expected = {reference::embedding(table, ids)}});
    const auto dy = random({4, 6, cols}, 3);
    auto dtable =
        reference::numeric_gradient([&](const auto& in) { return reference::embedding(in[0], ids); }, {table}, 0, dy);
    for (const std::int64_t micro_batch : {0, 1}) {
      const auto before = random({11, cols}, 4);
      for (std::int64_t i = 0; micro_batch > 0 && i < dtable.size(); ++i) dtable[i] += before[i];
      expect_kernel({.name = "embedding_backward",
                     .inputs = {ids, dy},
                     .expected = {dtable},
                     .attributes = {{"accumulate", true}},
                     .params = {.micro_batch = micro_batch},
                     .tolerance = 1e-5,
                     .before = {before}});
    }
  }
}

TEST(Embedding, OfASplitTableGivesItsOwnRows) {
  const auto table = random({11, 5}, 1);
  const auto ids = random_integers({300}, 2, 0, 11);
  const auto whole = reference::embedding(table, ids);
  const auto dy = random({300, 5}, 3);
  const auto dtable =
      reference::numeric_gradient([&](const auto& in) { return reference::embedding(in[0], ids); }, {table}, 0, dy);
  for (const auto& [start, rows] : {std::pair{0, 4}, {4, 7}}) {
    auto y = whole;
    for (std::int64_t i = 0; i < y.size(); ++i)
      if (ids[i / 5] < start || ids[i / 5] >= start + rows) y[i] = 0;
    expect_kernel({.name = "embedding", .inputs = {part_of(table, {start, 0}, {rows, 5}), ids}, .expected = {y}});
    expect_kernel({.name = "embedding_backward",
                   .inputs = {ids, dy},
                   .expected = {part_of(dtable, {start, 0}, {rows, 5})},
                   .tolerance = 1e-5,
                   .scale = 30});
  }
}

TEST(Embedding, SumsAreOfFloatsInTheOrderOfTheIds) {
  const auto ids = random_integers({2500}, 2, 0, 300);
  const auto dy = random({2500, 3}, 3);
  auto dtable = reference::zeros({300, 3});
  for (std::int64_t i = 0; i < dy.size(); ++i) {
    auto& sum = dtable[static_cast<std::int64_t>(ids[i / 3]) * 3 + i % 3];
    sum = static_cast<float>(sum) + static_cast<float>(dy[i]);
  }
  expect_kernel({.name = "embedding_backward", .inputs = {ids, dy}, .expected = {dtable}, .tolerance = 0});
}

TEST(Embedding, SumsAllIdsOfARow) {
  struct Case {
    std::int64_t rows, count, cols;
  };
  // Few rows, so that each has many ids; rows beyond one and two bytes; more ids than a block sorts.
  for (const auto& [rows, count, cols] : {Case{3, 1000, 8},
                                          {1, 129, 5},
                                          {1, 128, 4},
                                          {1, 257, 1},
                                          {255, 600, 4},
                                          {256, 600, 4},
                                          {1000, 4097, 6},
                                          {70'000, 5000, 2},
                                          {40, 300, 132}})
    for (const std::int64_t micro_batch : {0, 1}) {
      auto ids = random_integers({count}, 2, 0, rows);
      for (std::int64_t k = 0; k < count; k += 3) ids[k] = ids[0];  // a frequent one
      const auto dy = random({count, cols}, 3), before = random({rows, cols}, 4);
      auto dtable = micro_batch > 0 ? before : reference::zeros({rows, cols});
      for (std::int64_t k = 0; k < count; ++k)
        for (std::int64_t c = 0; c < cols; ++c)
          dtable[static_cast<std::int64_t>(ids[k]) * cols + c] += dy[k * cols + c];
      for (const std::int64_t shift : {0, 1})
        expect_kernel({.name = "embedding_backward",
                       .inputs = {ids, dy},
                       .expected = {dtable},
                       .attributes = {{"accumulate", true}},
                       .params = {.micro_batch = micro_batch},
                       .scale = 30,
                       .before = {before},
                       .shift = shift});
      const auto table = random({rows, cols}, 1);
      expect_kernel({.name = "embedding", .inputs = {table, ids}, .expected = {reference::embedding(table, ids)}});
    }
}

TEST(Embedding, GradientOfATablePartHasTheWholeTablesBits) {
  const auto ids = random_integers({2000}, 2, 0, 7);
  const auto dy = random({2000, 5}, 3);
  const auto gradient = [&](std::int64_t start, std::int64_t rows) {
    return run_kernel(device_with(1), {.name = "embedding_backward",
                                       .inputs = {ids, dy},
                                       .expected = {part_of(reference::zeros({7, 5}), {start, 0}, {rows, 5})}})[0];
  };
  const auto whole = gradient(0, 7), part = gradient(2, 4);
  for (std::int64_t i = 0; i < part.size(); ++i) EXPECT_EQ(part[i], whole[10 + i]) << i;
}

TEST(Embedding, IdOutsideTheTableIsADataErrorThatNamesIdAndRow) {
  const Tensor ids{{2, 2}, {0, 1, 2, 11}, DType::kI32};
  try {
    run_kernel(*new_device(),
               {.name = "embedding", .inputs = {random({11, 3}, 1), ids}, .expected = {reference::zeros({2, 2, 3})}});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kData);
    EXPECT_NE(std::string(e.what()).find("id 11 in row 1"), std::string::npos) << e.what();
  }
}

TEST(Dropout, TakesItsBitsFromThePlaceInTheWholeBatch) {
  constexpr std::uint64_t kKey = 0x9123456789ABCDEFULL;
  const Shape global{6, 5, 11};
  const auto whole = random(global, 1);
  for (const auto& [start, size] : {std::pair{Shape{0, 0, 0}, global},
                                    {Shape{2, 0, 0}, Shape{3, 5, 11}},
                                    {Shape{1, 2, 0}, Shape{2, 2, 11}},
                                    {Shape{0, 1, 3}, Shape{6, 3, 5}},
                                    {Shape{0, 0, 4}, Shape{6, 5, 7}}})
    for (const std::int64_t micro_batch : {0, 2}) {
      const auto x = part_of(whole, start, size);
      auto y = x;
      for (std::int64_t i = 0; i < y.tensor.size(); ++i) {
        const auto row = micro_batch * 6 + start[0] + i / (size[1] * size[2]);
        const auto element = (row * 5 + start[1] + i / size[2] % size[1]) * 11 + start[2] + i % size[2];
        const bool kept = uniform_01(philox_bits(kKey, static_cast<std::uint64_t>(element), 9)) >= 0.3F;
        y.tensor[i] = kept ? x.tensor[i] / 0.7 : 0;
      }
      expect_kernel(
          {.name = "dropout",
           .inputs = {x},
           .expected = {y},
           .attributes = {{"rate", 0.3}, {"key", static_cast<std::int64_t>(kKey)}, {"seed_rows", std::int64_t{6}}},
           .params = {.step = 9, .micro_batch = micro_batch},
           .in_place = {{0, 0}}});
    }
}

TEST(Dropout, CountsBeyondThirtyTwoBits) {
  const Shape global{std::int64_t{1} << 30, 64}, start{(std::int64_t{1} << 28) - 1, 0};  // elements around 2^34
  const auto x = random({2, 64}, 1);
  auto y = x;
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const auto element = static_cast<std::uint64_t>(start[0] * 64 + i);
    y[i] = uniform_01(philox_bits(7, element, std::uint64_t{5} << 32)) >= 0.5F ? 2 * x[i] : 0;
  }
  expect_kernel({.name = "dropout",
                 .inputs = {Operand(x, global, start)},
                 .expected = {y},
                 .attributes = {{"rate", 0.5}, {"key", std::int64_t{7}}},
                 .params = {.step = std::int64_t{5} << 32}});
}

TEST(Dropout, OfManyElementsIsTheSameOnAllThreads) {
  const auto x = random({40'001}, 1);
  auto y = x;
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const bool keep = uniform_01(philox_bits(5, static_cast<std::uint64_t>(i), 1)) >= 0.25F;
    kept += keep ? 1 : 0;
    y[i] = keep ? x[i] / 0.75 : 0;
  }
  EXPECT_NEAR(static_cast<double>(kept) / 40'001, 0.75, 0.01);
  expect_kernel({.name = "dropout",
                 .inputs = {x},
                 .expected = {y},
                 .attributes = {{"rate", 0.25}, {"key", std::int64_t{5}}},
                 .params = {.step = 1}});
}

}  // namespace
}  // namespace tessera::device::test
