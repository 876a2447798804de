// A YAML document as a plain tree with the line of every node, and strict reading of its maps.
// Input is untrusted: no aliases or anchors (no alias bombs), no tags, no duplicate keys, one document, UTF-8 without NUL, at
// most 1 MiB, 32 levels and 100,000 values. Every refusal is an nsa::Error that begins with "file:line".
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nsa/base/error.h"

namespace nsa {

struct YamlEntry;

struct YamlNode {
  enum class Kind { null, scalar, sequence, map };

  Kind kind = Kind::null;
  Location where;                  // of a map's value: the line of its key
  std::string scalar;              // of a scalar, as written
  bool quoted = false;             // a quoted scalar is text, never a number or a boolean
  std::vector<YamlNode> items;     // of a sequence
  std::vector<YamlEntry> entries;  // of a map, in the order of the file

  [[nodiscard]] const YamlNode* find(std::string_view key) const;
  [[nodiscard]] YamlNode* find(std::string_view key);
};

struct YamlEntry {
  std::string key;
  YamlNode value;
};

// `file` is used in messages only. Throws: Error.
[[nodiscard]] YamlNode parse_yaml(std::string_view text, const std::string& file);
[[nodiscard]] YamlNode load_yaml(const std::string& path);

// The same tree with every node said to come from `where` (a command line option, say).
[[nodiscard]] YamlNode relocated(YamlNode node, const Location& where);

// "a list", "\"abc\"", "nothing": what was found, for messages; shortened, control characters replaced.
[[nodiscard]] std::string found_text(const YamlNode& node);

// Maps are merged key by key, anything else in `over` replaces what is in `base`; locations come along.
void merge_yaml(YamlNode& base, const YamlNode& over);

// Sets "a.b.c" to `value`, making maps on the way. Throws: Error if a part of the path is not a map, or is empty.
void set_yaml_path(YamlNode& root, std::string_view path, const YamlNode& value);

// The value at "a.b.c", or nullptr.
[[nodiscard]] const YamlNode* find_yaml_path(const YamlNode& root, std::string_view path);

// Typed reading; `what` names the value in messages ("model.dim"). Throws: Error "file:line: WHAT: found X, wanted Y".
[[nodiscard]] std::int64_t read_int(const YamlNode& node, const std::string& what);
[[nodiscard]] double read_double(const YamlNode& node, const std::string& what);
[[nodiscard]] bool read_bool(const YamlNode& node, const std::string& what);
[[nodiscard]] std::string read_text(const YamlNode& node, const std::string& what);
[[nodiscard]] std::vector<std::string> read_texts(const YamlNode& node, const std::string& what);
[[nodiscard]] std::vector<int> read_ints(const YamlNode& node, const std::string& what);

// The same by the type of `out`.
void read_value(const YamlNode& node, const std::string& what, std::int64_t& out);
void read_value(const YamlNode& node, const std::string& what, int& out);
void read_value(const YamlNode& node, const std::string& what, double& out);
void read_value(const YamlNode& node, const std::string& what, bool& out);
void read_value(const YamlNode& node, const std::string& what, std::string& out);
void read_value(const YamlNode& node, const std::string& what, std::vector<std::string>& out);
void read_value(const YamlNode& node, const std::string& what, std::vector<int>& out);

// A text that must be one of `known`; the error names the nearest.
[[nodiscard]] std::string read_name(const YamlNode& node,
                                    const std::string& what,
                                    std::span<const std::string> known);
// Throws: Error "file:line: WHAT: found "X", wanted one of ... (did you mean ...?)".
[[noreturn]] void throw_unknown_name(const Location& where,
                                     const std::string& what,
                                     const std::string& found,
                                     std::span<const std::string> known);

// While one exists, every key that a YamlMap of this thread is asked for is noted as its full path: lets a test demand that
// each is documented.
class YamlKeyLog {
 public:
  YamlKeyLog();
  ~YamlKeyLog();
  YamlKeyLog(const YamlKeyLog&) = delete;
  YamlKeyLog& operator=(const YamlKeyLog&) = delete;

  [[nodiscard]] const std::set<std::string>& keys() const { return keys_; }
  static void note(const std::string& path);

 private:
  static YamlKeyLog*& current();
  YamlKeyLog* outer_;
  std::set<std::string> keys_;
};

// Reads a map and knows which keys were asked for. finish() refuses the rest, naming the nearest known key.
class YamlMap {
 public:
  // Throws: Error if `node` is neither a map nor null (null reads as an empty map).
  YamlMap(const YamlNode& node, std::string path);

  // The value of `key`, or nullptr. Marks the key as known.
  const YamlNode* get(const std::string& key);
  // Throws: Error if the key is not there.
  const YamlNode& require(const std::string& key);
  // "path.key"
  [[nodiscard]] std::string name(const std::string& key) const;

  // Sets `out` when the key is there, leaves the default when it is not.
  template <typename Value>
  void read(const std::string& key, Value& out) {
    if (const YamlNode* node = get(key)) read_value(*node, name(key), out);
  }

  // Throws: Error at the first key that nobody asked for.
  void finish() const;

 private:
  const YamlNode& node_;
  std::string path_;
  std::vector<std::string> known_;
};

}  // namespace nsa
