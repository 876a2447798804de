// Text -> tree, on yaml-cpp's event parser: its Node would resolve aliases and forget duplicate keys before they could be
// refused.
#include <algorithm>
#include <set>
#include <sstream>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "nsa/base/file.h"
#include "nsa/base/yaml.h"

namespace nsa {
namespace {

// Far above every real scenario; far below what could exhaust memory or the parser's stack.
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 20;
constexpr std::size_t kMaxDepth = 32;
constexpr std::size_t kMaxNodes = 100'000;

// Builds the tree bottom up. yaml-cpp gives an explicit tag as it is, "!" to a quoted scalar, "?" (or "") to all others.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::string file) : file_(std::move(file)) {}

  // Throws: Error that had to wait for the end.
  [[nodiscard]] YamlNode take() {
    if (list_as_key_.line > 0)
      throw Error(list_as_key_, "found a list or map as key, wanted a name");
    return std::move(root_);
  }
  [[nodiscard]] Location at(const YAML::Mark& mark) const { return {file_, mark.line + 1}; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) throw Error(at(mark), "found a second document, wanted one");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    YamlNode node = begin(mark, "", anchor);
    if (wants_key()) throw Error(at(mark), "found an empty key, wanted a name");
    close(std::move(node));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    throw Error(at(mark), "found an alias (*name), wanted the value itself");
  }

  void OnScalar(const YAML::Mark& mark,
                const std::string& tag,
                YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode node = begin(mark, tag, anchor);
    if (wants_key()) {
      take_key(mark, value);
      return;
    }
    node.kind = YamlNode::Kind::scalar;
    node.scalar = value;
    node.quoted = tag == "!";
    close(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark,
                       const std::string& tag,
                       YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(mark, tag, anchor, YamlNode::Kind::sequence);
  }
  void OnSequenceEnd() override { close_frame(); }

  void OnMapStart(const YAML::Mark& mark,
                  const std::string& tag,
                  YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(mark, tag, anchor, YamlNode::Kind::map);
  }
  void OnMapEnd() override { close_frame(); }

 private:
  struct Frame {
    YamlNode node;
    std::set<std::string> keys;
    std::string key;  // the one whose value comes next
    int key_line = 0;
    bool has_key = false;
  };

  // Every value and key passes here.
  YamlNode begin(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) {
      throw Error(at(mark), "found an anchor (&name), wanted a plain value");
    }
    if (!tag.empty() && tag != "?" && tag != "!") {
      throw Error(at(mark), "found a tag (!name), wanted a plain value");
    }
    if (++nodes_ > kMaxNodes) {
      throw Error(at(mark), "found more than " + std::to_string(kMaxNodes) + " values");
    }
    YamlNode node;
    const bool is_value_of_map = !frames_.empty() && frames_.back().has_key;
    node.where = is_value_of_map ? Location{file_, frames_.back().key_line} : at(mark);
    return node;
  }

  [[nodiscard]] bool wants_key() const {
    return !frames_.empty() && frames_.back().node.kind == YamlNode::Kind::map &&
           !frames_.back().has_key;
  }

  void take_key(const YAML::Mark& mark, const std::string& key) {
    Frame& frame = frames_.back();
    if (!frame.keys.insert(key).second) {
      YamlNode shown;
      shown.kind = YamlNode::Kind::scalar;
      shown.scalar = key;
      throw Error(at(mark), "found the key " + found_text(shown) + " twice, wanted it once");
    }
    frame.key = key;
    frame.key_line = mark.line + 1;
    frame.has_key = true;
  }

  void open(const YAML::Mark& mark,
            const std::string& tag,
            YAML::anchor_t anchor,
            YamlNode::Kind kind) {
    Frame frame;
    frame.node = begin(mark, tag, anchor);
    frame.node.kind = kind;
    // Told at the end only: to yaml-cpp an unclosed "[1" begins like a key, and that it is unclosed is what matters.
    if (wants_key() && list_as_key_.line == 0) list_as_key_ = at(mark);
    if (frames_.size() >= kMaxDepth) {
      throw Error(at(mark), "found more than " + std::to_string(kMaxDepth) + " levels");
    }
    frames_.push_back(std::move(frame));
  }

  void close_frame() {
    YamlNode node = std::move(frames_.back().node);
    frames_.pop_back();
    close(std::move(node));
  }

  void close(YamlNode node) {
    if (frames_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& frame = frames_.back();
    if (frame.node.kind == YamlNode::Kind::sequence) {
      frame.node.items.push_back(std::move(node));
    } else if (frame.has_key) {
      frame.node.entries.push_back({std::move(frame.key), std::move(node)});
      frame.has_key = false;
    } else {
      frame.has_key = true;  // a list or map as key: refused at the end
    }
  }

  std::string file_;
  std::vector<Frame> frames_;
  YamlNode root_;
  Location list_as_key_;
  std::size_t nodes_ = 0;
  int documents_ = 0;
};

// Length of the UTF-8 sequence at `at`, 0 if there is none (RFC 3629: shortest form, no surrogates, at most U+10FFFF).
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
  };
  const auto continues = [&](std::size_t i) { return (byte(i) >> 6U) == 2U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2) return 0;
  if (first < 0xE0) return continues(1) ? 2 : 0;
  const unsigned second = byte(1);
  if (first < 0xF0) {
    const bool shortest = first != 0xE0 || second >= 0xA0;
    const bool surrogate = first == 0xED && second >= 0xA0;
    return continues(1) && continues(2) && shortest && !surrogate ? 3 : 0;
  }
  const bool in_range =
      first < 0xF5 && (first != 0xF0 || second >= 0x90) && (first != 0xF4 || second < 0x90);
  return in_range && continues(1) && continues(2) && continues(3) ? 4 : 0;
}

void check_bytes(std::string_view text, const std::string& file) {
  if (static_cast<std::int64_t>(text.size()) > kMaxBytes) {
    throw Error(Location{file},
                "found " + std::to_string(text.size()) + " bytes, wanted at most " +
                    std::to_string(kMaxBytes));
  }
  int line = 1;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) throw Error({file, line}, "found bytes that are no UTF-8, wanted text");
    if (text[at] == '\0') throw Error({file, line}, "found a NUL byte, wanted text");
    if (text[at] == '\n') ++line;
    at += length;
  }
}

}  // namespace

YamlNode parse_yaml(std::string_view text, const std::string& file) {
  check_bytes(text, file);
  TreeBuilder builder(file);
  std::istringstream stream{std::string(text)};
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    const int line = error.mark.is_null() ? 0 : error.mark.line + 1;
    throw Error({file, line}, "not valid YAML: " + error.msg);
  }
  YamlNode root = builder.take();
  if (root.where.file.empty()) root.where = {file, 1};
  return root;
}

YamlNode load_yaml(const std::string& path) {
  return parse_yaml(read_file(path, kMaxBytes), path);
}

}  // namespace nsa
