#include <algorithm>
#include <map>
#include <set>

#include "partition/plan.h"

// This file shares no code with the allocator and the passes: it looks at the finished program only.
namespace tessera::partition {
namespace {

/// Bytes of a pool that an instruction touches.
struct Touch {
  int position = 0;
  bool write = false;
  int memory = -1;  // the value that owns the bytes
};

struct Span {
  Pool pool = Pool::kArena;
  std::int64_t begin = 0, end = 0;
  int owner = -1;
};

class Checker {
 public:
  Checker(const Plan& plan, const Program& program) : plan_(plan), program_(program) {}

  std::vector<std::string> run() {
    number_instructions();
    order_instructions();
    find_spans();
    walk();
    compare_spans();
    look_at_products();
    return std::move(faults_);
  }

 private:
  struct Step {
    const Instruction* instruction;
    int section;
    int first;  // position of the section's first instruction
  };

  void number_instructions() {
    std::vector<const Section*> sections{&program_.prologue, &program_.body};
    for (const auto& [name, section] : program_.epilogues) sections.push_back(&section);
    for (std::size_t s = 0; s < sections.size(); ++s) {
      const int first = static_cast<int>(steps_.size());
      if (s == 1) body_ = {first, first + static_cast<int>(sections[s]->instructions.size())};
      for (const auto& i : sections[s]->instructions) steps_.push_back({&i, static_cast<int>(s), first});
    }
  }

  /// before_[p]: for each stream the last position that has surely ended when p starts.
  void order_instructions() {
    before_.resize(steps_.size());
    int last_of_stream[2] = {-1, -1};
    int section = -1;
    for (int p = 0; p < static_cast<int>(steps_.size()); ++p) {
      const auto& step = steps_[static_cast<std::size_t>(p)];
      if (step.section != section) {
        section = step.section;
        last_of_stream[0] = last_of_stream[1] = -1;
      }
      const int s = static_cast<int>(step.instruction->stream);
      std::vector<int> known{step.first - 1, step.first - 1};
      const auto learn = [&](int q) {
        const int t = static_cast<int>(steps_[static_cast<std::size_t>(q)].instruction->stream);
        for (int k = 0; k < 2; ++k)
          known[static_cast<std::size_t>(k)] = std::max(
              known[static_cast<std::size_t>(k)], before_[static_cast<std::size_t>(q)][static_cast<std::size_t>(k)]);
        known[static_cast<std::size_t>(t)] = std::max(known[static_cast<std::size_t>(t)], q);
      };
      if (last_of_stream[s] >= 0) learn(last_of_stream[s]);
      for (const int w : step.instruction->waits) {
        const int q = step.first + w;
        if (w < 0 || q >= p)
          faults_.push_back(fmt::format("instruction {} waits for instruction {}, which isn't before it", p, q));
        else
          learn(q);
      }
      before_[static_cast<std::size_t>(p)] = known;
      last_of_stream[s] = p;
    }
  }

  bool happens_before(int p, int q) const {
    const int s = static_cast<int>(steps_[static_cast<std::size_t>(p)].instruction->stream);
    return before_[static_cast<std::size_t>(q)][static_cast<std::size_t>(s)] >= p;
  }

  void find_spans() {
    for (int v = 0; v < static_cast<int>(program_.values.size()); ++v) {
      std::int64_t offset = 0;
      int owner = v;
      while (value(owner).inside >= 0) {
        offset += value(owner).inside_offset;
        owner = value(owner).inside;
      }
      const auto& root = value(owner);
      Span span{root.pool, root.offset + offset, root.offset + offset + value(v).bytes, owner};
      if (offset + value(v).bytes > root.bytes)
        faults_.push_back(fmt::format("{} reaches beyond {}", value(v).name, root.name));
      if (root.state < 0 && root.offset >= 0 && root.offset % kAlignment != 0)
        faults_.push_back(fmt::format("{} is not aligned", root.name));
      if (root.offset >= 0 && span.end > plan_.pool_bytes[static_cast<int>(root.pool)])
        faults_.push_back(fmt::format("{} reaches beyond the pool {}", value(v).name, to_string(root.pool)));
      spans_.push_back(span);
    }
  }

  void touch(int v, int position, bool write) {
    const auto& span = spans_[static_cast<std::size_t>(v)];
    if (value(span.owner).offset < 0)
      faults_.push_back(fmt::format("instruction {} touches {}, which has no memory", position, value(v).name));
    touches_[span.owner].push_back({position, write, span.owner});
  }

  void walk() {
    std::set<int> written;
    for (const int v : program_.inputs) written.insert(spans_[static_cast<std::size_t>(v)].owner);
    for (int v = 0; v < static_cast<int>(program_.values.size()); ++v)
      if (value(v).state >= 0) written.insert(v);
    for (int p = 0; p < static_cast<int>(steps_.size()); ++p) {
      const auto& i = *steps_[static_cast<std::size_t>(p)].instruction;
      std::vector<int> reads, writes;
      if (const auto* k = std::get_if<KernelCall>(&i.what)) {
        reads = k->inputs;
        writes = k->outputs;
      } else {
        for (const auto& s : std::get<CollectiveCall>(i.what).segments) {
          reads.push_back(s.in);
          writes.push_back(s.out);
        }
      }
      for (const int v : reads) {
        if (!written.contains(spans_[static_cast<std::size_t>(v)].owner))
          faults_.push_back(
              fmt::format("instruction {} ({}) reads {} before anything is written to it", p, i.layer, value(v).name));
        touch(v, p, false);
      }
      for (const int v : writes) {
        written.insert(spans_[static_cast<std::size_t>(v)].owner);
        touch(v, p, true);
      }
    }
  }

  /// Within one memory: touches of which one writes are ordered. Between memories that overlap: all of one come before
  /// all of the other.
  void compare_spans() {
    for (const auto& [owner, list] : touches_)
      for (std::size_t a = 0; a < list.size(); ++a)
        for (std::size_t b = a + 1; b < list.size(); ++b)
          if ((list[a].write || list[b].write) && list[a].position != list[b].position &&
              !happens_before(list[a].position, list[b].position))
            faults_.push_back(fmt::format("{} is touched by instructions {} and {} in no order", value(owner).name,
                                          list[a].position, list[b].position));
    std::vector<int> owners;
    for (const auto& [owner, list] : touches_) owners.push_back(owner);
    std::sort(owners.begin(), owners.end(), [&](int a, int b) {
      const auto &x = spans_[static_cast<std::size_t>(a)], &y = spans_[static_cast<std::size_t>(b)];
      return x.pool != y.pool ? x.pool < y.pool : x.begin < y.begin;
    });
    for (std::size_t a = 0; a < owners.size(); ++a) {
      const auto& x = spans_[static_cast<std::size_t>(owners[a])];
      for (std::size_t b = a + 1; b < owners.size(); ++b) {
        const auto& y = spans_[static_cast<std::size_t>(owners[b])];
        if (y.pool != x.pool || y.begin >= x.end) break;
        if (x.begin == x.end || y.begin == y.end) continue;
        if (conflict(owners[a], owners[b]))
          faults_.push_back(fmt::format("{} and {} share bytes {} to {} of the {} while both are in use",
                                        value(owners[a]).name, value(owners[b]).name, std::max(x.begin, y.begin),
                                        std::min(x.end, y.end), to_string(x.pool)));
      }
    }
  }

  /// What follows a sum is not the sum of what follows its parts.
  void look_at_products() {
    for (std::size_t p = 0; p < steps_.size(); ++p) {
      const auto& i = *steps_[p].instruction;
      const auto* k = std::get_if<KernelCall>(&i.what);
      if (k == nullptr || k->kernel != "matmul" || value(k->outputs.at(0)).layout.partial.empty()) continue;
      for (const auto& [name, attribute] : k->attributes.items())
        if (name == "activation" || ((name == "bias" || name == "residual") && std::get<bool>(attribute)))
          faults_.push_back(fmt::format("instruction {} ({}) has the {} of a partial product, {}", p, i.layer, name,
                                        value(k->outputs[0]).name));
    }
  }

  bool all_before(int a, int b) const {
    for (const auto& x : touches_.at(a))
      for (const auto& y : touches_.at(b))
        if (!happens_before(x.position, y.position)) return false;
    return true;
  }

  bool conflict(int a, int b) const {
    if (value(a).state >= 0 || value(b).state >= 0 || is_input(a) || is_input(b)) return true;
    if ((carried(a) && in_body(b)) || (carried(b) && in_body(a))) return true;
    // What is read after the end must be the last in its bytes.
    return !((all_before(a, b) && !read_at_end(a)) || (all_before(b, a) && !read_at_end(b)));
  }

  bool is_input(int owner) const { return any_of_owner(program_.inputs, owner); }

  bool read_at_end(int owner) const {
    std::vector<int> values;
    for (const auto& o : program_.outputs) values.push_back(o.value);
    for (const auto& [path, v] : program_.gradients) values.push_back(v);
    return any_of_owner(values, owner);
  }

  bool any_of_owner(const std::vector<int>& values, int owner) const {
    return std::any_of(values.begin(), values.end(),
                       [&](int v) { return spans_[static_cast<std::size_t>(v)].owner == owner; });
  }

  bool in_body(int owner) const {
    const auto& list = touches_.at(owner);
    return std::any_of(list.begin(), list.end(),
                       [&](const Touch& t) { return t.position >= body_[0] && t.position < body_[1]; });
  }

  /// Carried through the rounds of the body: with several micro-batches its bytes belong to it all the time.
  bool carried(int owner) const {
    if (program_.micro_batches <= 1 || !in_body(owner)) return false;
    const auto& list = touches_.at(owner);
    return read_at_end(owner) || std::any_of(list.begin(), list.end(), [&](const Touch& t) {
             return t.position < body_[0] || t.position >= body_[1];
           });
  }

  const ProgramValue& value(int v) const { return program_.values[static_cast<std::size_t>(v)]; }

  const Plan& plan_;
  const Program& program_;
  std::vector<Step> steps_;
  std::vector<std::vector<int>> before_;
  std::vector<Span> spans_;
  std::map<int, std::vector<Touch>> touches_;
  std::vector<int> body_{0, 0};
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> check(const Plan& plan, const Program& program) { return Checker(plan, program).run(); }

}  // namespace tessera::partition
