#include "nsa/base/fields.h"

#include "nsa/base/fields_read.h"

namespace nsa {
namespace {

// Bounds of whole numbers stay far below 2^53: each is a double without rounding.
std::string bound_text(double bound, bool whole) {
  return whole ? std::to_string(static_cast<std::int64_t>(bound)) : to_text(bound);
}

}  // namespace

bool Accepts::has(double number) const {
  const bool any = low == -kUnbounded && high == kUnbounded;
  const bool over = low_excluded ? number > low : number >= low;
  const bool under = high_excluded ? number < high : number <= high;
  return any || (over && under);
}

std::string Accepts::range_text(bool whole) const {
  const std::string from = bound_text(low, whole);
  const std::string to = bound_text(high, whole);
  if (!low_excluded) return from + ".." + to;
  return "above " + from + (high_excluded ? ", below " : " to ") + to;
}

std::optional<Violation> violation_of(const Accepts& accepts, std::int64_t value) {
  if (accepts.has(static_cast<double>(value))) return std::nullopt;
  return Violation{"", "found " + std::to_string(value) + ", wanted " + accepts.range_text(true)};
}

std::optional<Violation> violation_of(const Accepts& accepts, double value) {
  if (accepts.has(value)) return std::nullopt;
  return Violation{"", "found " + to_text(value) + ", wanted " + accepts.range_text(false)};
}

void refuse(const std::optional<Violation>& found, const YamlNode& node, const std::string& path) {
  if (!found) return;
  const YamlNode* value = found->key.empty() ? nullptr : find_yaml_path(node, found->key);
  const std::string dot = path.empty() || found->key.empty() ? "" : ".";
  throw Error(value != nullptr ? value->where : node.where,
              path + dot + found->key + ": " + found->text);
}

std::string read_accepted(const YamlNode& node, const std::string& what, const Accepts& accepts) {
  std::string text = read_text(node, what);
  const std::vector<std::string> names(accepts.names.begin(), accepts.names.end());
  if (!names.empty()) (void)read_name(node, what, names);
  if (accepts.fits != nullptr && !accepts.fits(text)) {
    throw Error(node.where,
                what + ": found " + (text.empty() ? "nothing" : found_text(node)) + ", wanted " +
                    accepts.wanted);
  }
  return text;
}

void read_value(const YamlNode& node,
                const std::string& what,
                const Accepts& accepts,
                std::vector<std::int64_t>& out) {
  if (node.kind != YamlNode::Kind::sequence) {
    throw Error(node.where, what + ": found " + found_text(node) + ", wanted a list of sizes");
  }
  out.clear();
  for (const YamlNode& item : node.items) {
    out.push_back(read_int(item, what));
    const bool ascending = out.size() < 2 || out[out.size() - 2] < out.back();
    if (accepts.has(static_cast<double>(out.back())) && ascending) continue;
    throw Error(item.where,
                what + ": found " + found_text(item) + ", wanted " + accepts.range_text(true) +
                    ", ascending");
  }
}

}  // namespace nsa
