#include "harness/cli/golden/names.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "nsa/base/error.h"
#include "nsa/base/text.h"

namespace harness::cli::golden {
namespace {

using Names = std::vector<std::string>;

std::string listed(const Names& names) {
  constexpr std::size_t kMost = 20;  // of 195 parameters nobody reads more
  Names shown(names.begin(),
              names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kMost)));
  const std::string text = nsa::join(shown);
  return names.size() > kMost ? text + " and " + std::to_string(names.size() - kMost) + " more"
                              : text;
}

Names missing_weights(const GoldenFile& file,
                      const std::map<std::string, oracles::Shape>& weights) {
  Names missing;
  for (const auto& [name, shape] : weights) {
    if (!file.has(file.weight_prefix() + name)) missing.push_back(file.weight_prefix() + name);
  }
  return missing;
}

// What a name of the file may have been meant to be: everything of this level that is not there, weights with and without
// their prefix.
Names absent(const GoldenFile& file, const Case& c, const Names& weights) {
  Names names = weights;
  for (const std::string& name : weights) {
    names.push_back(name.substr(file.weight_prefix().size()));
  }
  for (const auto& [name, shape] : all_results(c)) {
    if (!file.has(name)) names.push_back(name);
  }
  if (c.level == GoldenLevel::attention && !file.has("dy")) names.emplace_back("dy");
  return names;
}

// Letters and digits alone, in lower case.
std::string plain(const std::string& name) {
  std::string letters;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return letters;
}

// The name that was meant, or "". Names of this format are short and differ by a letter (k_win, o_win): one that is only
// near, and not just written otherwise, must be long enough to be told from an extra tensor of the user's own.
std::string meant(const std::string& name, const Names& candidates) {
  for (const std::string& candidate : candidates) {
    if (plain(candidate) == plain(name)) return candidate;
  }
  constexpr std::size_t kShort = 6;
  return name.size() < kShort ? "" : nsa::nearest_name(name, candidates, 1);
}

Names unused(const GoldenFile& file, const Case& c) {
  Names names = file.unknown();
  const auto wanted = all_results(c);
  for (const std::string& name : file.results()) {
    const bool known = std::any_of(
        wanted.begin(), wanted.end(), [&](const auto& result) { return result.first == name; });
    if (!known) names.push_back(name);
  }
  return names;
}

}  // namespace

void require_names(const GoldenFile& file,
                   const Case& c,
                   const std::map<std::string, oracles::Shape>& weights) {
  const Names missing = missing_weights(file, weights);
  const Names candidates = absent(file, c, missing);
  Names wrong;
  for (const std::string& name : file.weights()) {
    if (weights.count(name) > 0) continue;
    const std::string full = file.weight_prefix() + name;
    const std::string near = nsa::nearest_name(full, candidates);
    wrong.push_back("'" + full + "' is a weight that this configuration does not have" +
                    (near.empty() ? "" : ", the nearest that is missing is '" + near + "'"));
  }
  for (const std::string& name : unused(file, c)) {
    const std::string near = meant(name, candidates);
    if (near.empty()) continue;
    wrong.push_back("'" + name + "' is no name of this level, the nearest that is missing is '" +
                    near + "'");
  }
  if (missing.empty() && wrong.empty()) return;
  std::string text;
  if (!missing.empty()) {
    Names quoted;
    for (const std::string& name : missing) quoted.push_back("'" + name + "'");
    text = "found no tensor " + listed(quoted) + ", which level " + name_of(c.level) + " needs";
  }
  if (!wrong.empty()) text += (text.empty() ? "" : "; ") + listed(wrong);
  throw nsa::Error(nsa::Location{file.path()}, text);
}

}  // namespace harness::cli::golden
