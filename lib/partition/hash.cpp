#include "core/philox.h"
#include "partition/plan.h"

namespace tessera::partition {
namespace {

class Hasher {
 public:
  void add(std::uint64_t x) { hash_ = (hash_ ^ x) * 0x100000001b3ULL ^ (hash_ >> 29); }
  void add(const std::string& text) { add(philox_key(text.size(), "plan", text)); }
  template <typename T>
  void add_all(const std::vector<T>& items) {
    add(items.size());
    for (const auto& i : items) add(static_cast<std::uint64_t>(i));
  }
  void add(const mesh::Layout& layout) {
    add(layout.dims.size());
    for (const auto& d : layout.dims) add_all(d);
    add_all(layout.partial);
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

void add_section(Hasher& h, const Section& section) {
  h.add(section.instructions.size());
  for (const auto& i : section.instructions) {
    h.add(static_cast<std::uint64_t>(i.stream));
    h.add_all(i.waits);
    h.add(static_cast<std::uint64_t>(i.micro_batch));
    if (const auto* k = std::get_if<KernelCall>(&i.what)) {
      h.add(k->kernel);
      h.add_all(k->inputs);
      h.add_all(k->outputs);
      h.add(tessera::to_string(k->attributes));
    } else {
      const auto& c = std::get<CollectiveCall>(i.what);
      h.add(static_cast<std::uint64_t>(c.kind));
      h.add_all(c.axes);
      h.add(static_cast<std::uint64_t>(c.reduce));
      h.add(static_cast<std::uint64_t>(c.dtype));
      for (const auto& s : c.segments) {
        h.add(static_cast<std::uint64_t>(s.in));
        h.add(static_cast<std::uint64_t>(s.out));
      }
    }
  }
}

}  // namespace

std::uint64_t hash(const Plan& plan) {
  Hasher h;
  h.add(mesh::to_string(plan.mesh));
  h.add(plan.hardware);
  for (const auto bytes : plan.pool_bytes) h.add(static_cast<std::uint64_t>(bytes));
  for (const auto& s : plan.state) {
    h.add(s.variable.path);
    h.add_all(s.shape);
    h.add(s.layout);
    h.add(static_cast<std::uint64_t>(s.pool));
    h.add(static_cast<std::uint64_t>(s.offset));
    h.add(s.variable.initializer.key);
  }
  for (const auto& [name, program] : plan.programs) {
    h.add(name);
    h.add(static_cast<std::uint64_t>(program.micro_batches));
    for (const auto& v : program.values) {
      h.add_all(v.shape);
      h.add(v.layout);
      h.add(static_cast<std::uint64_t>(v.dtype));
      h.add(static_cast<std::uint64_t>(v.pool));
      h.add(static_cast<std::uint64_t>(v.offset));
      h.add(static_cast<std::uint64_t>(v.inside + 1));
      h.add(static_cast<std::uint64_t>(v.inside_offset));
      h.add(static_cast<std::uint64_t>(v.slice));
    }
    add_section(h, program.prologue);
    add_section(h, program.body);
    for (const auto& [epilogue, section] : program.epilogues) {
      h.add(epilogue);
      add_section(h, section);
    }
  }
  return h.value();
}

}  // namespace tessera::partition
