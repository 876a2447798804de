// The tree, and strict reading of it. Parsing is in yaml_parse.cpp.
#include "nsa/base/yaml.h"

#include <limits>

#include "nsa/base/text.h"

namespace nsa {
namespace {

constexpr std::size_t kLongestPathParts = 16;
constexpr std::size_t kShownBytes = 60;  // of what was found, in a message

[[noreturn]] void throw_wrong(const YamlNode& node,
                              const std::string& what,
                              const std::string& wanted) {
  throw Error(node.where, what + ": found " + found_text(node) + ", wanted " + wanted);
}

bool is_plain(const YamlNode& node) {
  return node.kind == YamlNode::Kind::scalar && !node.quoted;
}

std::vector<std::string> parts_of(std::string_view path, const Location& where) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t dot = path.find('.');
    parts.emplace_back(path.substr(0, dot));
    const bool bad = parts.back().empty() || parts.size() > kLongestPathParts;
    if (bad) throw Error(where, "found a path with an empty or too many parts, wanted a.b.c");
    if (dot == std::string_view::npos) return parts;
    path.remove_prefix(dot + 1);
  }
}

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    if (name == key) return &value;
  }
  return nullptr;
}

YamlNode* YamlNode::find(std::string_view key) {
  return const_cast<YamlNode*>(static_cast<const YamlNode&>(*this).find(key));
}

YamlNode relocated(YamlNode node, const Location& where) {
  node.where = where;
  for (YamlNode& item : node.items) item = relocated(std::move(item), where);
  for (auto& [key, value] : node.entries) value = relocated(std::move(value), where);
  return node;
}

std::string found_text(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null: return "nothing";
    case YamlNode::Kind::sequence: return "a list";
    case YamlNode::Kind::map: return "a map";
    case YamlNode::Kind::scalar: break;
  }
  std::size_t shown = std::min(node.scalar.size(), kShownBytes);
  const auto continues = [&](std::size_t at) {  // inside a UTF-8 sequence
    return at < node.scalar.size() && (static_cast<unsigned char>(node.scalar[at]) >> 6U) == 2U;
  };
  while (shown > 0 && continues(shown)) --shown;
  std::string text = "\"";
  for (const char byte : node.scalar.substr(0, shown)) {
    const auto code = static_cast<unsigned char>(byte);
    text += code < 0x20 || code == 0x7f ? '?' : byte;
  }
  return text + (shown < node.scalar.size() ? "...\"" : "\"");
}

void merge_yaml(YamlNode& base, const YamlNode& over) {
  if (base.kind != YamlNode::Kind::map || over.kind != YamlNode::Kind::map) {
    base = over;
    return;
  }
  for (const auto& [key, value] : over.entries) {
    if (YamlNode* known = base.find(key)) {
      merge_yaml(*known, value);
    } else {
      base.entries.push_back({key, value});
    }
  }
}

void set_yaml_path(YamlNode& root, std::string_view path, const YamlNode& value) {
  YamlNode* node = &root;
  std::string walked;
  for (const std::string& part : parts_of(path, value.where)) {
    if (node->kind == YamlNode::Kind::null) node->kind = YamlNode::Kind::map;
    if (node->kind != YamlNode::Kind::map) {
      throw Error(value.where, walked + ": found " + found_text(*node) + ", wanted a map");
    }
    YamlNode* next = node->find(part);
    if (next == nullptr) {
      node->entries.push_back({part, YamlNode()});
      next = &node->entries.back().value;
      next->where = value.where;
    }
    node = next;
    walked += (walked.empty() ? "" : ".") + part;
  }
  *node = value;
}

const YamlNode* find_yaml_path(const YamlNode& root, std::string_view path) {
  const YamlNode* node = &root;
  for (const std::string& part : parts_of(path, root.where)) {
    node = node->find(part);
    if (node == nullptr) return nullptr;
  }
  return node;
}

std::int64_t read_int(const YamlNode& node, const std::string& what) {
  const auto value = is_plain(node) ? parse_int(node.scalar) : std::nullopt;
  if (!value) throw_wrong(node, what, "a whole number");
  return *value;
}

double read_double(const YamlNode& node, const std::string& what) {
  const auto value = is_plain(node) ? parse_double(node.scalar) : std::nullopt;
  if (!value) throw_wrong(node, what, "a number");
  return *value;
}

bool read_bool(const YamlNode& node, const std::string& what) {
  const bool is_true = is_plain(node) && node.scalar == "true";
  if (!is_true && !(is_plain(node) && node.scalar == "false")) {
    throw_wrong(node, what, "true or false");
  }
  return is_true;
}

std::string read_text(const YamlNode& node, const std::string& what) {
  if (node.kind != YamlNode::Kind::scalar) throw_wrong(node, what, "text");
  return node.scalar;
}

std::vector<std::string> read_texts(const YamlNode& node, const std::string& what) {
  if (node.kind != YamlNode::Kind::sequence) throw_wrong(node, what, "a list of texts");
  std::vector<std::string> texts;
  texts.reserve(node.items.size());
  for (const YamlNode& item : node.items) texts.push_back(read_text(item, what));
  return texts;
}

std::vector<int> read_ints(const YamlNode& node, const std::string& what) {
  if (node.kind != YamlNode::Kind::sequence) throw_wrong(node, what, "a list of whole numbers");
  std::vector<int> numbers(node.items.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) read_value(node.items[i], what, numbers[i]);
  return numbers;
}

void read_value(const YamlNode& node, const std::string& what, std::int64_t& out) {
  out = read_int(node, what);
}
void read_value(const YamlNode& node, const std::string& what, int& out) {
  const std::int64_t value = read_int(node, what);
  if (value < std::numeric_limits<int>::min() || value > std::numeric_limits<int>::max()) {
    throw_wrong(node, what, "a whole number of at most 32 bits");
  }
  out = static_cast<int>(value);
}
void read_value(const YamlNode& node, const std::string& what, double& out) {
  out = read_double(node, what);
}
void read_value(const YamlNode& node, const std::string& what, bool& out) {
  out = read_bool(node, what);
}
void read_value(const YamlNode& node, const std::string& what, std::string& out) {
  out = read_text(node, what);
}
void read_value(const YamlNode& node, const std::string& what, std::vector<std::string>& out) {
  out = read_texts(node, what);
}
void read_value(const YamlNode& node, const std::string& what, std::vector<int>& out) {
  out = read_ints(node, what);
}

void throw_unknown_name(const Location& where,
                        const std::string& what,
                        const std::string& found,
                        std::span<const std::string> known) {
  YamlNode shown;
  shown.kind = YamlNode::Kind::scalar;
  shown.scalar = found;
  const std::string nearest = nearest_name(found, known);
  const std::string hint = nearest.empty() ? "" : "; did you mean \"" + nearest + "\"?";
  constexpr std::size_t kMostListed = 40;  // beyond, the hint would stand behind a page of names
  const bool listed = nearest.empty() || known.size() <= kMostListed;
  throw Error(where,
              what + ": found " + found_text(shown) + ", wanted " +
                  (known.size() == 1 ? "" : "one of ") +
                  (listed ? join(known) : std::to_string(known.size()) + " names") + hint);
}

std::string read_name(const YamlNode& node,
                      const std::string& what,
                      std::span<const std::string> known) {
  const std::string name = read_text(node, what);
  for (const std::string& candidate : known) {
    if (name == candidate) return name;
  }
  throw_unknown_name(node.where, what, name, known);
}

YamlKeyLog*& YamlKeyLog::current() {
  thread_local YamlKeyLog* log = nullptr;
  return log;
}

YamlKeyLog::YamlKeyLog() : outer_(current()) {
  current() = this;
}
YamlKeyLog::~YamlKeyLog() {
  current() = outer_;
}

void YamlKeyLog::note(const std::string& path) {
  if (current() != nullptr) current()->keys_.insert(path);
}

YamlMap::YamlMap(const YamlNode& node, std::string path) : node_(node), path_(std::move(path)) {
  if (node.kind != YamlNode::Kind::map && node.kind != YamlNode::Kind::null) {
    throw_wrong(node, path_.empty() ? "the document" : path_, "a map");
  }
}

const YamlNode* YamlMap::get(const std::string& key) {
  known_.push_back(key);
  YamlKeyLog::note(name(key));
  return node_.find(key);
}

const YamlNode& YamlMap::require(const std::string& key) {
  if (const YamlNode* node = get(key)) return *node;
  throw Error(node_.where,
              path_.empty() ? "found no key \"" + key + "\", which every scenario needs"
                            : path_ + ": found no " + key + ", wanted one");
}

std::string YamlMap::name(const std::string& key) const {
  return path_.empty() ? key : path_ + "." + key;
}

void YamlMap::finish() const {
  for (const auto& [key, value] : node_.entries) {
    bool known = false;
    for (const std::string& candidate : known_) known = known || candidate == key;
    if (!known) {
      throw_unknown_name(value.where, path_.empty() ? "key" : "key of " + path_, key, known_);
    }
  }
}

}  // namespace nsa
