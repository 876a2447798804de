// What `list --schema` documents is what the reader asks for.
#include "harness/scenario/schema.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/scenario/case.h"
#include "tests/fakes/manifest.h"
#include "tests/fakes/temp_folder.h"

namespace {

TEST(Schema, IsWhatTheReaderAsksFor) {
  const fakes::TempFolder folder;
  folder.write("corpus.txt", std::string(1000, 'a'));
  const std::string path =
      folder.write("s.yaml",
                   "version: 1\nscenario: s\nkind: training\nmodel: {use: toy}\n"
                   "training: {seq_len: 16, data: {text: [corpus.txt]}, optimizer: {}}\n"
                   "parallel: {ranks: 1, ddp: {}, checkpoint: {}}\n"
                   "requires: {}\nbudget: {}\nchecks: [finite]\nfault: {name: same_data}\n"
                   "expect: {code: A.B, site: {}}\n"
                   "known: [{when: {seed: 0}, outcome: FAIL, because: x, until: 2027-01-31}]\n");
  const nsa::YamlKeyLog log;
  (void)harness::load_cases(path, fakes::scenario_options(NSA_TEST_ROOT), fakes::manifest());
  std::set<std::string> documented;
  for (const harness::SchemaKey& key : harness::schema()) {
    EXPECT_TRUE(documented.insert(key.path).second) << key.path << " twice";
    EXPECT_STRNE(key.type, "") << key.path;
    EXPECT_STRNE(key.meaning, "") << key.path;
  }
  EXPECT_EQ(documented, log.keys());
}

TEST(Schema, TextHasALineForEachKey) {
  const std::string text = harness::schema_text();
  for (const harness::SchemaKey& key : harness::schema()) {
    EXPECT_THAT(text, testing::HasSubstr("\n" + std::string(key.path) + " "));
  }
}

}  // namespace
