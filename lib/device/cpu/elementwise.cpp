#include "device/cpu/context.h"
#include "device/cpu/elementwise_program.h"
#include "device/cpu/kernels.h"

namespace tessera::device::cpu {

std::unique_ptr<Kernel> make_elementwise(const KernelSpec& spec, Context& context) {
  const auto results = spec.attributes.get_or<std::vector<std::int64_t>>("results", {});
  std::vector<Shape> shapes;
  for (std::size_t k = 0; k < spec.inputs.size(); ++k) shapes.push_back(input(spec, k));
  const auto& shape = output(spec, 0);
  ElementwiseProgram program(spec.attributes.get<std::string>("program"), shapes, shape, results, context.threads);
  require(spec, program.result_count() == spec.outputs.size(), "the number of results is wrong");
  for (std::size_t k = 1; k < spec.outputs.size(); ++k) require_output(spec, k, shape);
  return kernel_of(
      [program = std::move(program)](const Args& args) mutable { program.run(args.inputs, args.outputs); });
}

}  // namespace tessera::device::cpu
