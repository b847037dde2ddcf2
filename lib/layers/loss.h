#pragma once

#include <functional>
#include <optional>

#include "layers/builder.h"
#include "layers/registry.h"

namespace tessera::layers {

/// What a loss or metric compares the prediction (rows..., c) with.
enum class Target : std::uint8_t {
  kLikePrediction,  // f32 (rows..., c)
  kLabels,          // i32 (rows...)
};

enum class Reduction : std::uint8_t { kSumOverBatchSize, kSum, kMeanWithSampleWeight };

/// Arguments that all losses take.
struct LossConfig {
  std::string reduction;
  std::optional<std::string> name;
  std::optional<std::int64_t> ignore_class;  // of the losses of labels alone
};
const std::vector<config::Field<LossConfig>>& common_loss_fields();

/// A loss with its arguments.
struct Loss {
  Target target = Target::kLikePrediction;
  Reduction reduction = Reduction::kSumOverBatchSize;
  std::optional<std::int64_t> ignore_class;
  SourcePos pos;
  /// prediction (rows..., c), target -> (rows...)
  std::function<Tensor(Builder&, Tensor prediction, Tensor target)> rows;
};

struct LossClass {
  std::string name;
  std::vector<std::string> aliases;
  std::vector<config::FieldDoc> fields;
  std::function<Loss(const config::Constructor&)> make;
};

class LossRegistry : public Registry<LossClass> {
 public:
  LossRegistry() : Registry("loss") {}

  template <typename Config>
  void add(const std::string& name, std::vector<std::string> aliases, Target target,
           Tensor (*rows)(Builder&, const Config&, Tensor prediction, Tensor target),
           std::vector<config::Field<Config>> own) {
    static_assert(std::is_base_of_v<LossConfig, Config>);
    const config::Fields<Config> fields(name, with_base(common_loss_fields(), std::move(own)));
    insert({name, std::move(aliases), fields.docs(), [fields, target, rows](const config::Constructor& c) {
              const auto config = fields.read(c.arguments, c.pos);
              return Loss{target, reduction(config), config.ignore_class, c.pos,
                          [rows, config](Builder& b, Tensor p, Tensor t) { return rows(b, config, p, t); }};
            }});
  }

 private:
  static Reduction reduction(const LossConfig& config);
};

const LossRegistry& loss_registry();

/// Throws Error (config) with the place for an unknown class or argument.
Loss make_loss(const config::Constructor& loss);

/// The target's shape for a prediction, and its dtype.
Shape target_shape(Target target, const Shape& prediction);
DType target_dtype(Target target);

/// The scalar loss: sum over the real rows of rows * weights / denominator, where the denominator counts the whole
/// batch. weights: the shape of the rows, or absent.
Tensor add_loss(Builder& b, const Loss& loss, Tensor prediction, Tensor target, std::optional<Tensor> weights);

}  // namespace tessera::layers
