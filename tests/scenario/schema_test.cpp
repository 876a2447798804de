// What `list --schema` documents is what the reader asks for, and what the JSON of a case says.
#include "harness/scenario/schema.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/scenario/case_json.h"
#include "tests/fakes/manifest.h"
#include "tests/fakes/temp_folder.h"
#include "tests/fakes/where.h"

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
  (void)harness::load_cases(path, fakes::scenario_options(fakes::tree()), fakes::manifest());
  std::set<std::string> documented;
  for (const harness::SchemaKey& key : harness::schema()) {
    EXPECT_TRUE(documented.insert(key.path).second) << key.path << " twice";
    EXPECT_NE(key.type, "") << key.path;
    EXPECT_NE(key.meaning, "") << key.path;
  }
  EXPECT_EQ(documented, log.keys());
}

constexpr const char* kEverything =
    "version: 1\nscenario: s\nkind: training\nmodel: {use: toy}\n"
    "training: {seq_len: 16, data: {text: [corpus.txt]}}\nchecks: [finite]\n"
    "requires: {gpu_memory_gib: 1}\nbudget: {cores: 1}\nlife: {save_every: 1}\n"
    "fault: {name: first_key, layers: [0], rank: 0, form: all_rows}\n"
    "expect: {outcome: FAIL, code: A.B, site: {layers: [0], branch: a, param: a, op: a, heads: [0],"
    " rows: [0], ranks: [0], step: 1, bucket: 0, sequence: 0, phase: a, detail: {a: 1}}}\n";

// Paths of all values, not going into maps whose keys are words of the author.
void add_paths(const nlohmann::json& map, const std::string& prefix, std::set<std::string>& out) {
  for (const auto& [key, value] : map.items()) {
    const std::string path = prefix + key;
    out.insert(path);
    const bool open = path == "route" || path == "known.when" || path == "expect.site.detail";
    if (value.is_object() && !open) add_paths(value, path + ".", out);
  }
}

// A key that is read and not written would be lost on the way to the ranks.
TEST(Schema, IsWhatACaseSays) {
  const fakes::TempFolder folder;
  folder.write("corpus.txt", std::string(1000, 'a'));
  std::set<std::string> said;
  for (const char* last :  // one of them at a time
       {"known: [{when: {seed: 0}, outcome: FAIL, code: A.B, because: x, until: 2027-01-31}]\n",
        "bisect: {over: parallel.checkpoint.layers}\n"}) {
    const std::string path = folder.write("s.yaml", std::string(kEverything) + last);
    const auto cases =
        harness::load_cases(path, fakes::scenario_options(fakes::tree()), fakes::manifest());
    harness::Scenario scenario = cases.at(0).scenario;
    scenario.kernel.callable = "m:f";    // said by cases of kind kernel alone
    scenario.kernel.picks = "external";  // and of some levels
    scenario.kernel.own_block = false;
    scenario.kernel.keys = "separate";
    scenario.kernel.from = "/a";
    scenario.kernel.tile = {64};
    scenario.kernel.widths = {"32x16"};
    scenario.kernel.thorough = true;
    scenario.kernel.allow = "both";
    scenario.command.argv = {"a"};  // and of kind command
    scenario.command.directory = "/a";
    scenario.command.watch = true;
    scenario.training.cuda_graph = true;  // and of kind throughput on a card
    scenario.claim = "it cannot be";      // where somebody said so
    scenario.observe = 1;
    scenario.model.tied_head = true;
    scenario.model.dropout = 0.5;
    scenario.training.data.replicated = true;
    scenario.training.data.packed = 2;
    scenario.training.data.loss_mask = nsa::DataConfig::LossMask::ragged;
    add_paths(harness::scenario_json(scenario), "", said);
  }
  std::set<std::string> documented;
  for (const harness::SchemaKey& key : harness::schema()) documented.insert(key.path);
  for (const char* path :  // of files only, or words of the author
       {"model.use",
        "profiles",
        "profiles.NAME",
        "axes",
        "axes.PATH",
        "route.SEAM",
        "known.when.PATH"}) {
    EXPECT_EQ(documented.erase(path), 1U) << path;
  }
  EXPECT_EQ(documented, said);
}

TEST(Schema, TextHasALineForEachKey) {
  const std::string text = harness::schema_text();
  for (const harness::SchemaKey& key : harness::schema()) {
    EXPECT_THAT(text, testing::HasSubstr("\n" + std::string(key.path) + " "));
  }
}

}  // namespace
