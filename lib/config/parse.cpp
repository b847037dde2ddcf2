#include <algorithm>
#include <map>
#include <memory>
#include <sstream>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "config/node.h"

namespace tessera::config {
namespace {

constexpr std::size_t kMaxDepth = 100;
constexpr std::size_t kMaxNodes = 200'000;
constexpr std::size_t kMaxBytes = 16U << 20;

/// Turns byte offsets into places; columns count characters.
class Lines {
 public:
  Lines(const std::string& text, const std::string& file) : text_(text), file_(file), starts_{0} {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') starts_.push_back(i + 1);
      if ((static_cast<unsigned char>(text[i]) & 0xC0) == 0x80) continuations_.push_back(i);
    }
  }

  /// line and column from 0, the column in bytes.
  SourcePos at(int line, int column) const {
    const auto index = std::min(static_cast<std::size_t>(std::max(line, 0)), starts_.size() - 1);
    const auto begin = starts_[index];
    const auto bytes = std::max(column, 0);
    const auto continuations = before(begin + static_cast<std::size_t>(bytes)) - before(begin);
    return {file_, static_cast<int>(index) + 1, bytes + 1 - static_cast<int>(continuations)};
  }
  SourcePos at(const YAML::Mark& mark) const { return at(mark.line, mark.column); }

  SourcePos at_byte(std::size_t offset) const {
    const auto next = std::upper_bound(starts_.begin(), starts_.end(), offset);
    const auto index = static_cast<std::size_t>(next - starts_.begin()) - 1;
    return at(static_cast<int>(index), static_cast<int>(offset - starts_[index]));
  }

  /// Whether the line has a tab among the white space in front.
  bool is_indented_by_tab(int line) const {
    if (line < 0 || static_cast<std::size_t>(line) >= starts_.size()) return false;
    const auto begin = starts_[static_cast<std::size_t>(line)];
    const auto end = text_.find_first_not_of(" \t", begin);
    return text_.substr(begin, end - begin).find('\t') != std::string::npos;
  }

 private:
  /// Bytes in front of an offset that continue a character.
  std::ptrdiff_t before(std::size_t offset) const {
    return std::lower_bound(continuations_.begin(), continuations_.end(), offset) - continuations_.begin();
  }

  const std::string& text_;
  const std::string& file_;
  std::vector<std::size_t> starts_, continuations_;
};

/// Bytes of the well-formed UTF-8 sequence at `i` (Unicode 15, table 3-7); 0 if there is none.
std::size_t utf8_length(const std::string& text, std::size_t i) {
  const auto byte = [&](std::size_t k) { return k < text.size() ? static_cast<unsigned char>(text[k]) : 0U; };
  const auto first = byte(i);
  if (first < 0x80) return 1;
  const std::size_t length = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  for (std::size_t k = 1; k < length; ++k)
    if ((byte(i + k) & 0xC0) != 0x80) return 0;
  const auto second = byte(i + 1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool out_of_range = (first == 0xED && second > 0x9F) || (first == 0xF4 && second > 0x8F);
  return overlong || out_of_range ? 0 : length;
}

void check_bytes(const std::string& text, const Lines& lines, const std::string& file) {
  if (text.size() > kMaxBytes)
    fail(ExitCode::kConfig, "{}: the text has {} bytes; a config has at most {}", file, text.size(), kMaxBytes);
  for (std::size_t i = 0; i < text.size();) {
    const auto length = utf8_length(text, i);
    const auto byte = static_cast<unsigned char>(text[i]);
    if (length == 0)
      fail_at(lines.at_byte(i), ExitCode::kConfig, "byte 0x{:02x} is not UTF-8; save the file as UTF-8", byte);
    if (byte < 0x20 && byte != '\n' && byte != '\r' && byte != '\t')
      fail_at(lines.at_byte(i), ExitCode::kConfig, "control character 0x{:02x} is not allowed in YAML", byte);
    i += length;
  }
}

/// Builds the tree from yaml-cpp's events, and holds every bound.
class Builder : public YAML::EventHandler {
 public:
  explicit Builder(const Lines& lines) : lines_(lines) {}

  bool has_document() const { return documents_ > 0; }
  Node take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) refuse(mark, "a second document begins here; a config is one document");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    auto node = start(mark, Node::Kind::kNull);
    // An empty value is reported at the next token: its place is the key's.
    if (!open_.empty() && open_.back().key && open_.back().key_pos.line != node.pos.line)
      node.pos = open_.back().key_pos;
    add(std::move(node), 1, anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto it = anchors_.find(anchor);
    if (it == anchors_.end()) refuse(mark, "an alias inside its own anchor would never end");
    count(it->second->nodes, mark);
    if (open_.size() + it->second->depth > kMaxDepth) refuse_depth(mark);
    if (at_key()) {
      take_key(it->second->node, lines_.at(mark));
      return;
    }
    raise_depth(it->second->depth);
    add(it->second->node, it->second->nodes, 0);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    auto node = start(mark, Node::Kind::kScalar);
    node.text = value;
    if (tag == "!" || tag == "tag:yaml.org,2002:str") {
      node.quoted = true;
    } else if (tag != "?" && !tag.empty()) {
      refuse(mark, fmt::format("the tag '{}' is not supported; write the value without it", tag));
    } else if (value.empty()) {
      node.kind = Node::Kind::kNull;
    }
    add(std::move(node), 1, anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    push(mark, tag, anchor, Node::Kind::kSequence);
  }
  void OnSequenceEnd() override { pop(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    push(mark, tag, anchor, Node::Kind::kMap);
  }
  void OnMapEnd() override { pop(); }

 private:
  struct Open {
    Node node;
    YAML::anchor_t anchor = 0;
    std::size_t nodes = 1, depth = 1;
    std::map<std::string, SourcePos> seen;
    std::unique_ptr<std::string> key;
    SourcePos key_pos;
  };
  struct Anchor {
    Node node;
    std::size_t nodes, depth;
  };

  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& sentence) const {
    fail_at(lines_.at(mark), ExitCode::kConfig, "{}", sentence);
  }
  [[noreturn]] void refuse_depth(const YAML::Mark& mark) const {
    refuse(mark, fmt::format("the text is nested deeper than {} levels", kMaxDepth));
  }

  void count(std::size_t nodes, const YAML::Mark& mark) {
    total_ += nodes;
    if (total_ > kMaxNodes) refuse(mark, fmt::format("the text has more than {} values, aliases expanded", kMaxNodes));
  }

  Node start(const YAML::Mark& mark, Node::Kind kind) {
    count(1, mark);
    Node node;
    node.kind = kind;
    node.pos = lines_.at(mark);
    return node;
  }

  void push(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Node::Kind kind) {
    if (tag != "?" && !tag.empty())
      refuse(mark, fmt::format("the tag '{}' is not supported; write the value without it", tag));
    if (open_.size() >= kMaxDepth) refuse_depth(mark);
    open_.push_back({start(mark, kind), anchor, 1, 1, {}, nullptr, {}});
  }

  void pop() {
    auto top = std::move(open_.back());
    open_.pop_back();
    raise_depth(top.depth);
    add(std::move(top.node), top.nodes, top.anchor, top.depth);
  }

  void raise_depth(std::size_t depth) {
    if (!open_.empty()) open_.back().depth = std::max(open_.back().depth, depth + 1);
  }

  bool at_key() const { return !open_.empty() && open_.back().node.is_map() && !open_.back().key; }

  void take_key(const Node& node, const SourcePos& pos) {
    auto& map = open_.back();
    if (!node.is_scalar()) fail_at(pos, ExitCode::kConfig, "a key must be text, found {}", describe(node));
    if (node.text == "<<" && !node.quoted)
      fail_at(pos, ExitCode::kConfig, "merge key '<<' is not part of YAML 1.2; write the keys out");
    const auto [it, is_new] = map.seen.emplace(node.text, pos);
    if (!is_new)
      fail_at(pos, ExitCode::kConfig, "key '{}' is given twice; the first is at {}:{}", shortened(node.text),
              it->second.line, it->second.column);
    map.key = std::make_unique<std::string>(node.text);
    map.key_pos = pos;
  }

  void add(Node node, std::size_t nodes, YAML::anchor_t anchor, std::size_t depth = 0) {
    if (anchor != 0) {
      total_ += nodes;
      if (total_ > kMaxNodes)
        fail_at(node.pos, ExitCode::kConfig, "the text has more than {} values, aliases expanded", kMaxNodes);
      anchors_[anchor] = std::make_unique<Anchor>(Anchor{node, nodes, depth});
    }
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    if (at_key()) {
      const auto pos = node.pos;
      take_key(node, pos);
      return;
    }
    auto& top = open_.back();
    top.nodes += nodes;
    if (top.node.is_sequence()) {
      top.node.items.push_back(std::move(node));
    } else {
      top.node.entries.push_back({std::move(*top.key), top.key_pos, std::move(node)});
      top.key.reset();
    }
  }

  const Lines& lines_;
  Node root_;
  int documents_ = 0;
  std::size_t total_ = 0;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, std::unique_ptr<Anchor>> anchors_;
};

}  // namespace

Node parse(const std::string& text, const std::string& file) {
  const Lines lines(text, file);
  check_bytes(text, lines, file);
  Builder builder(lines);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) continue;
  } catch (const YAML::Exception& error) {
    const auto line = error.mark.line;
    const bool tab = lines.is_indented_by_tab(line) || lines.is_indented_by_tab(line - 1);
    fail_at(lines.at(error.mark), ExitCode::kConfig, "not YAML: {}{}", error.msg,
            tab ? "; the line is indented by a tab, YAML wants spaces" : "");
  }
  if (!builder.has_document()) fail(ExitCode::kConfig, "{}: the text is empty", file);
  return builder.take();
}

}  // namespace tessera::config
