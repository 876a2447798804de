// One shipped fault for every code that a fault can give, on real ranks: the code and the site that the program tells are
// those that the fault's file expects. The file is read and compared here, not by the program under test.
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include "tests/e2e/installed.h"
#include "tests/fakes/where.h"

namespace e2e {
namespace {

namespace fs = std::filesystem;

struct Planted {
  std::string name;
  std::string outcome;  // empty: the file leaves it open
  std::set<std::string> codes;
  YAML::Node site;
};

void PrintTo(const Planted& planted, std::ostream* out) {
  *out << planted.name;
}

// "A or B": both are right names.
std::set<std::string> codes_of(const std::string& text) {
  std::set<std::string> codes;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word != "or") codes.insert(word);
  }
  return codes;
}

bool needs_a_card(const YAML::Node& file) {
  return (file["parallel"] && file["parallel"]["device"] &&
          file["parallel"]["device"].as<std::string>() == "cuda") ||
         (file["requires"] && file["requires"]["gpus"]);
}

// The large model takes a minute a case: its faults are planted into the toy model, where a site in a layer cannot be that
// of the file.
bool is_large(const YAML::Node& file) {
  return file["model"]["use"].as<std::string>() == "m7c_125m";
}

std::vector<Planted> one_for_each_code() {
  std::map<std::string, fs::path>
      files;  // by name, so that the choice does not depend on the file system
  for (const auto& entry : fs::directory_iterator(fakes::tree() + "/scenarios/faults")) {
    if (entry.path().extension() == ".yaml") files[entry.path().stem()] = entry.path();
  }
  std::vector<Planted> chosen;
  std::set<std::string> seen;
  for (const auto& [name, path] : files) {
    const YAML::Node file = YAML::LoadFile(path);
    const YAML::Node expect = file["expect"];
    if (!expect || !expect["code"] || needs_a_card(file)) continue;
    if (is_large(file) && file["fault"]["layers"]) continue;
    if (!seen.insert(expect["code"].as<std::string>()).second) continue;
    chosen.push_back({name,
                      expect["outcome"] ? expect["outcome"].as<std::string>() : "",
                      codes_of(expect["code"].as<std::string>()),
                      expect["site"] ? expect["site"] : YAML::Node()});
  }
  return chosen;
}

std::string word(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

bool is_same(const YAML::Node& wanted, const nlohmann::json& found) {
  if (!found.is_number_float()) return wanted.as<std::string>() == word(found);
  const auto number = wanted.as<double>();
  return std::abs(found.get<double>() - number) <= 1e-6 * std::abs(number);
}

// Rows are some of those that are wrong; every other list is told whole.
void expect_list(const std::string& key, const YAML::Node& wanted, const nlohmann::json& found) {
  std::vector<std::string> said;
  for (const auto& item : found) said.push_back(word(item));
  const auto names = wanted.as<std::vector<std::string>>();
  if (key == "rows") {
    EXPECT_THAT(said, testing::IsSupersetOf(names));
  } else {
    EXPECT_THAT(said, testing::ElementsAreArray(names)) << key;
  }
}

// Every key that the file gives, and nothing else of the site.
void expect_site(const YAML::Node& wanted, const nlohmann::json& found) {
  for (const auto& entry : wanted) {
    const auto key = entry.first.as<std::string>();
    const YAML::Node& value = entry.second;
    ASSERT_TRUE(found.contains(key)) << key << " is not told";
    if (value.IsMap()) {
      expect_site(value, found.at(key));
    } else if (value.IsSequence()) {
      expect_list(key, value, found.at(key));
    } else {
      EXPECT_TRUE(is_same(value, found.at(key))) << key << ": " << found.at(key);
    }
  }
}

class FaultTest : public testing::TestWithParam<Planted> {};

TEST_P(FaultTest, IsNamedWithItsSite) {
  const Planted& planted = GetParam();
  const std::string path = scenario("faults/" + planted.name);
  std::vector<std::string> args = {path, "--json", "--quiet"};
  if (is_large(YAML::LoadFile(path))) args.insert(args.end(), {"--set", "model.use=toy"});
  const Installed program;
  const Told told = program("run", args);
  ASSERT_FALSE(told.out.at("cases").empty()) << told.text;
  const nlohmann::json& the_case = told.out.at("cases").back();  // of several, it compares them
  const nlohmann::json* initiating = nullptr;
  for (const auto& finding : the_case.at("findings")) {
    if (finding.at("role") == "initiating" && initiating == nullptr) initiating = &finding;
  }
  ASSERT_NE(initiating, nullptr) << the_case.dump(1);
  const auto code = initiating->at("code").get<std::string>();
  EXPECT_EQ(planted.codes.count(code), 1U) << "called " << code << "\n" << the_case.dump(1);
  expect_site(planted.site, initiating->at("site"));
  EXPECT_NE(the_case.at("reason").get<std::string>().find(planted.outcome), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Shipped,
                         FaultTest,
                         testing::ValuesIn(one_for_each_code()),
                         [](const auto& planted) { return planted.param.name; });

}  // namespace
}  // namespace e2e
