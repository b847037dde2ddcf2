#include "device/classes.h"

#include <fmt/format.h>

namespace tessera::device {

IgnoredClass::IgnoredClass(const KernelSpec& spec) : there(spec.attributes.has("ignore_class")) {
  if (there) label = spec.attributes.get<std::int64_t>("ignore_class");
}

Classes::Classes(const KernelSpec& spec, const TensorSpec& pred) : ignored(spec) {
  require(spec, !pred.shape.empty(), "predictions have at least one dimension");
  classes = global_of(pred).back();
  start = start_of(pred).back();
  cols = pred.shape.back();
}

std::string Classes::complaint(std::int64_t row, std::int32_t label) const {
  return fmt::format("label {} in row {} of this rank's part of the batch is none of the {} classes", label, row,
                     classes);
}

void require_labels(const KernelSpec& spec, std::size_t k, std::int64_t rows) {
  require(spec, elements(input(spec, k, DType::kI32)) == rows, "there should be one label a row");
}

}  // namespace tessera::device
