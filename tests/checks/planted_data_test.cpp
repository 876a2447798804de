// Planted cases that are data: each gives the very evidence that its mutator in C++ gives, and what is wrong in a file is refused.
#include "tests/checks/planted_data.h"

#include <gtest/gtest.h>

#include "nsa/base/hash.h"
#include "tests/checks/evidence_rows.h"
#include "tests/checks/planted.h"

namespace {

using fixtures::Healthy;
using fixtures::Planted;
using nlohmann::json;

// All rows as JSON, those of one kind sorted.
json rows_of(const harness::Evidence& evidence) {
  json all = json::object();
  fixtures::each_kind(evidence, [&](std::string_view kind, const auto& rows) {
    std::vector<std::string> texts;
    for (const auto& row : rows) {
      texts.push_back(std::to_string(row.process) + " " + std::to_string(row.t_ms) + " " +
                      json(row.row).dump());
    }
    std::sort(texts.begin(), texts.end());
    all[std::string(kind)] = texts;
  });
  return all;
}

std::map<std::string, std::string> files_of(const harness::Evidence& evidence) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(evidence.folder)) {
    if (!entry.is_regular_file()) continue;
    const std::string path = entry.path().string();
    files[std::filesystem::relative(path, evidence.folder).string()] = nsa::hash_file(path);
  }
  return files;
}

TEST(PlantedData, GivesTheEvidenceThatTheMutatorGives) {
  std::size_t compared = 0;
  for (const Planted& data : fixtures::planted_in_data()) {
    SCOPED_TRACE(data.check + ": " + data.name);
    for (const Planted& old : fixtures::all_planted()) {
      if (old.check != data.check || old.name != data.name) continue;
      ++compared;
      EXPECT_EQ(std::tie(data.ranks, data.steps, data.kind),
                std::tie(old.ranks, old.steps, old.kind));
      EXPECT_EQ(data.verdict, old.verdict);
      EXPECT_EQ(data.code, old.code);
      EXPECT_EQ(json::parse(data.site), json::parse(old.site));
      Healthy by_data(data.ranks, data.steps, data.kind);
      Healthy by_code(old.ranks, old.steps, old.kind);
      data.spoil(by_data);
      old.spoil(by_code);
      EXPECT_EQ(rows_of(by_data.evidence), rows_of(by_code.evidence));
      EXPECT_TRUE(by_data.evidence.the_case == by_code.evidence.the_case);
      EXPECT_EQ(files_of(by_data.evidence), files_of(by_code.evidence));
    }
  }
  EXPECT_EQ(compared, fixtures::planted_in_data().size());
}

}  // namespace
