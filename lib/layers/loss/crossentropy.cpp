// Categorical cross-entropy, of distributions or of labels, over the last dimension.
#include "graph/ops/ops.h"
#include "layers/loss.h"

namespace tessera::layers {
namespace {

struct CategoricalConfig : LossConfig {
  bool from_logits = false;
  double label_smoothing = 0;
};
struct SparseConfig : LossConfig {
  bool from_logits = false;
};

Tensor categorical(Builder& b, const CategoricalConfig& c, Tensor prediction, Tensor target) {
  return b.op(graph::kCategoricalCrossentropy, "categorical_crossentropy", {prediction, target},
              {{"from_logits", c.from_logits}, {"label_smoothing", c.label_smoothing}});
}

Tensor sparse(Builder& b, const SparseConfig& c, Tensor prediction, Tensor labels) {
  Attributes attributes{{"from_logits", c.from_logits}};
  if (c.ignore_class) attributes.set("ignore_class", *c.ignore_class);
  return b.op(graph::kSparseCrossentropy, "sparse_crossentropy", {prediction, labels}, attributes);
}

}  // namespace

void add_crossentropy(LossRegistry& r) {
  r.add("CategoricalCrossentropy", {"categorical_crossentropy"}, Target::kLikePrediction, categorical,
        {config::field("from_logits", &CategoricalConfig::from_logits, false),
         config::field("label_smoothing", &CategoricalConfig::label_smoothing, 0.0, config::in_0_1),
         unsupported<CategoricalConfig>("axis", "-1")});
  r.add("SparseCategoricalCrossentropy", {"sparse_categorical_crossentropy"}, Target::kLabels, sparse,
        {config::field("from_logits", &SparseConfig::from_logits, false),
         config::field("ignore_class", &SparseConfig::ignore_class, std::nullopt),
         unsupported<SparseConfig>("axis", "-1")});
}

}  // namespace tessera::layers
