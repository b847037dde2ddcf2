// Keras Embedding: rows of a table.  ids (...) -> (..., output_dim); embeddings (input_dim, output_dim).
#include "graph/ops/ops.h"
#include "layers/layer.h"

namespace tessera::layers {
namespace {

struct EmbeddingConfig : LayerConfig {
  std::int64_t input_dim = 0, output_dim = 0;
  config::Constructor embeddings_initializer;
};

Tensor embedding(Builder& b, const EmbeddingConfig& c, Tensor ids) {
  if (is_float(ids.dtype()))
    b.fail("ids are whole numbers, found {}; give the input of the model `dtype: int32`", to_string(ids.dtype()));
  const auto table = b.variable("embeddings", {c.input_dim, c.output_dim}, c.embeddings_initializer);
  return b.op(graph::kEmbedding, "embedding", {table, b.cast(ids, DType::kI32)});
}

}  // namespace

void add_embedding(LayerRegistry& r) {
  using config::field;
  using C = EmbeddingConfig;
  r.add("Embedding", embedding,
        {field("input_dim", &C::input_dim, config::positive),                     //
         field("output_dim", &C::output_dim, config::positive),                   //
         field("embeddings_initializer", &C::embeddings_initializer, "uniform"),  //
         unsupported<C>("embeddings_regularizer"), unsupported<C>("embeddings_constraint"),
         unsupported<C>("mask_zero", "false"), unsupported<C>("weights"), unsupported<C>("lora_rank")});
}

}  // namespace tessera::layers
