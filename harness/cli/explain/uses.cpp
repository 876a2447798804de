#include "harness/cli/explain/uses.h"

#include <filesystem>

#include "harness/checks/list.h"
#include "harness/cli/paths.h"
#include "nsa/base/yaml.h"

namespace harness::cli {
namespace {

std::string scalar_at(const nsa::YamlNode& root, const std::string& path) {
  const nsa::YamlNode* node = nsa::find_yaml_path(root, path);
  return node != nullptr && node->kind == nsa::YamlNode::Kind::scalar ? node->scalar : "";
}

// "A or B" -> A, B
std::vector<std::string> alternatives(std::string_view text) {
  constexpr std::string_view kOr = " or ";
  std::vector<std::string> codes;
  for (std::size_t at = text.find(kOr); at != std::string_view::npos; at = text.find(kOr)) {
    codes.emplace_back(text.substr(0, at));
    text.remove_prefix(at + kOr.size());
  }
  codes.emplace_back(text);
  return codes;
}

}  // namespace

CodeUses code_uses(const std::string& scenarios_folder) {
  CodeUses uses;
  for (const Check& check : all_checks()) {
    for (const std::string& code : check.codes) uses.of_code[code].checks.push_back(check.name);
  }
  std::error_code error;
  if (!std::filesystem::is_directory(scenarios_folder, error)) {
    uses.lacking = scenarios_folder;
    return uses;
  }
  for (const std::string& file : scenario_files({scenarios_folder})) {
    const nsa::YamlNode root = nsa::load_yaml(file);
    const std::string wanted = scalar_at(root, "expect.code");
    if (wanted.empty()) continue;
    const std::string below = std::filesystem::path(file).lexically_relative(scenarios_folder);
    for (const std::string& code : alternatives(wanted)) {
      uses.of_code[code].scenarios.push_back(
          {scalar_at(root, "scenario"), scalar_at(root, "fault.name"), below});
    }
  }
  return uses;
}

}  // namespace harness::cli
