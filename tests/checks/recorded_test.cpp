// What every check says of every planted defect, as it was recorded: a change of a check or of the judge leaves all rows as they are,
// or its commit changes the file, where each changed row can be read. NSA_WRITE_GOLDEN=1 writes it anew.
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include "harness/judge/codes/codes.h"
#include "tests/checks/planted.h"
#include "tests/fakes/where.h"

namespace {

std::string recorded_file() {
  return fakes::tree() + "/tests/checks/planted/recorded.jsonl";
}

// Measured numbers with three digits: another compiler may round the last ones otherwise.
nlohmann::json rounded_numbers(nlohmann::json value) {
  if (value.is_structured()) {
    for (auto& item : value) item = rounded_numbers(item);
  } else if (value.is_number_float()) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", value.get<double>());
    value = text;
  }
  return value;
}

std::string row_of(const fixtures::Planted& planted) {
  fixtures::Healthy healthy(planted.ranks, planted.steps, planted.kind);
  planted.spoil(healthy);
  const harness::CheckResult result = fixtures::run(planted.check, healthy.evidence);
  nlohmann::json row = {{"check", planted.check},
                        {"case", planted.name},
                        {"verdict", harness::name_of(result.verdict)}};
  for (const harness::Finding& finding : result.findings) {
    const nlohmann::json site = finding.site;
    row["findings"].push_back({{"code", finding.code},
                               {"variant", finding.variant},
                               {"status", harness::name_of(finding.status)},
                               {"site", rounded_numbers(site)}});
  }
  return row.dump();
}

std::vector<std::string> rows() {
  std::vector<std::string> rows;
  for (const fixtures::Planted& planted : fixtures::all_planted()) rows.push_back(row_of(planted));
  std::sort(rows.begin(), rows.end());
  return rows;
}

TEST(Recorded, EveryCheckSaysOfEveryPlantedDefectWhatItSaid) {
  const std::vector<std::string> now = rows();
  if (std::getenv("NSA_WRITE_GOLDEN") != nullptr) {
    std::ofstream file(recorded_file());
    for (const std::string& row : now) file << row << "\n";
  }
  std::vector<std::string> before;
  std::ifstream file(recorded_file());
  for (std::string line; std::getline(file, line);) before.push_back(line);
  ASSERT_FALSE(before.empty()) << recorded_file();
  std::vector<std::string> lost;
  std::vector<std::string> added;
  std::set_difference(
      before.begin(), before.end(), now.begin(), now.end(), std::back_inserter(lost));
  std::set_difference(
      now.begin(), now.end(), before.begin(), before.end(), std::back_inserter(added));
  for (const std::string& row : lost) ADD_FAILURE() << "no longer: " << row;
  for (const std::string& row : added) ADD_FAILURE() << "new: " << row;
}

TEST(Recorded, EveryCodeThatACheckCanGiveOccurs) {
  std::set<std::string> codes;
  std::ifstream file(recorded_file());
  for (std::string line; std::getline(file, line);) {
    const auto row = nlohmann::json::parse(line);
    if (!row.contains("findings")) continue;
    for (const auto& finding : row.at("findings")) codes.insert(finding.at("code"));
  }
  for (const harness::Check& check : harness::all_checks()) {
    for (const std::string& code : check.codes) {
      if (code == "SELECTION.TIE") continue;  // a tie is reported and is no finding
      EXPECT_TRUE(codes.contains(code)) << code << " of " << check.name;
    }
  }
}

}  // namespace
