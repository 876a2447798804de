// A bundle comes back as it was written, byte for byte the same each time, and a stranger's is refused with one error.
#include "harness/bundle/bundle.h"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/bundle/archive.h"
#include "harness/scenario/case_json.h"
#include "nsa/base/error.h"
#include "nsa/base/hash.h"
#include "tests/fakes/manifest.h"
#include "tests/fakes/mutate.h"
#include "tests/fakes/where.h"

namespace harness {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr ArchiveLimits kRoomy = {std::size_t{1} << 24, 16};

Case shipped(const std::string& name) {
  const ScenarioOptions options = fakes::scenario_options(fakes::tree());
  return load_cases(
             fakes::tree() + "/scenarios/faults/" + name + ".yaml", options, fakes::manifest())
      .front();
}

Bundle some_bundle() {
  Bundle bundle;
  bundle.failing.the_case = bare_case(shipped("averaged_twice"));
  Cause cause{"GRAD.SCALE", {}, "Gradients are half of the mean."};
  cause.site.ranks = {0, 1};
  cause.site.detail = {{"factor", 0.5}};
  bundle.failing.causes = {cause};
  bundle.original = bundle.failing;
  bundle.original->the_case.scenario.training.steps = 7;
  bundle.original->the_case.id = case_id(bundle.original->the_case);
  bundle.text = "the text that both train on";
  bundle.asked = {{"set", "seed=3"}};
  bundle.versions = {{"commit", "0123"}, {"torch", "2.11.0"}};
  bundle.environment = {{"OMP_NUM_THREADS", "1"}};
  bundle.shrinking = "made smaller in 1 try";
  bundle.tries = {{"training.steps 7 -> 1", "FAIL GRAD.SCALE", true}};
  bundle.findings = "1. GRAD.SCALE\n";
  return bundle;
}

// Of the members as `change` leaves them, with hashes that fit.
std::string rewritten(const std::function<void(std::vector<Member>&)>& change) {
  std::vector<Member> members = read_archive(write_bundle(some_bundle()), kRoomy, "f");
  change(members);
  json says = json::parse(members.front().content);
  for (const Member& member : members) {
    if (!says["members"].contains(member.name)) continue;
    says["members"][member.name] = {{"bytes", member.content.size()},
                                    {"hash", nsa::hash_hex(member.content)}};
  }
  members.front().content = says.dump();
  members.back().content = nsa::hash_hex(members.front().content) + "\n";
  return write_archive(members);
}

Member& member_named(std::vector<Member>& members, const std::string& name) {
  return *std::find_if(
      members.begin(), members.end(), [&](const Member& member) { return member.name == name; });
}

// The JSON of a member, as `change` leaves it.
std::string changed(const std::string& name, const std::function<void(json&)>& change) {
  return rewritten([&](std::vector<Member>& members) {
    Member& member = member_named(members, name);
    json document = json::parse(member.content);
    change(document);
    member.content = document.dump();
  });
}

std::string error_of_reading(const std::string& bytes) {
  try {
    (void)read_bundle(bytes, "f.tar.zst");
  } catch (const nsa::Error& error) {
    return error.what();
  }
  return "";
}

TEST(Bundle, ComesBackAsItWasWritten) {
  const Bundle written = some_bundle();
  const Bundle read = read_bundle(write_bundle(written), "f");
  EXPECT_EQ(read.failing.the_case.id, written.failing.the_case.id);
  EXPECT_EQ(read.failing.the_case.scenario.training.data.text,
            std::vector<std::string>{"texts/" + nsa::hash_hex(written.text) + ".txt"});
  EXPECT_EQ(read.failing.causes, written.failing.causes);
  ASSERT_TRUE(read.original.has_value());
  EXPECT_EQ(read.original->the_case.scenario.training.steps, 7);
  EXPECT_EQ(read.text, written.text);
  EXPECT_EQ(read.asked, written.asked);
  EXPECT_EQ(read.versions, written.versions);
  EXPECT_EQ(read.environment, written.environment);
  EXPECT_EQ(read.shrinking, written.shrinking);
  EXPECT_EQ(read.tries, written.tries);
  EXPECT_EQ(read.findings, written.findings);
}

// A file of tensors without any.
std::string an_operator_call() {
  const std::string header = R"({"__metadata__":{"operator":"{}"}})" + std::string(6, ' ');
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  return bytes + header;
}

TEST(Bundle, TheOperatorInWhichANaNWasBornTravelsWithIt) {
  Bundle bundle = some_bundle();
  bundle.operator_call = an_operator_call();
  EXPECT_EQ(read_bundle(write_bundle(bundle), "f").operator_call, bundle.operator_call);
  EXPECT_EQ(read_bundle(write_bundle(some_bundle()), "f").operator_call, "");
  bundle.operator_call = "no tensors";
  EXPECT_THAT(error_of_reading(write_bundle(bundle)), HasSubstr("operator.safetensors"));
  bundle.operator_call.assign(kMostOperatorBytes + 1, ' ');
  EXPECT_THAT(error_of_reading(write_bundle(bundle)), HasSubstr("too long"));
}

TEST(Bundle, TheSameCaseGivesTheSameBytes) {
  EXPECT_EQ(write_bundle(some_bundle()), write_bundle(some_bundle()));
}

TEST(Bundle, NothingOfThisMachineIsInTheCase) {
  const Case the_case = shipped("averaged_twice");
  ASSERT_THAT(case_to_json(the_case), HasSubstr(fakes::tree()));
  std::string all;
  for (const Member& member : read_archive(write_bundle(some_bundle()), kRoomy, "f")) {
    all += member.content;
  }
  EXPECT_EQ(all.find(fakes::tree()), std::string::npos);
  EXPECT_FALSE(bare_case(the_case).scenario.expect.has_value());
  EXPECT_TRUE(bare_case(the_case).scenario.fault.has_value()) << "it is what fails";
}

TEST(Bundle, ATooLargeOneIsNotWritten) {
  Bundle bundle = some_bundle();
  std::mt19937 random(1);
  bundle.text.resize(kMostBundleBytes + 1'000'000);
  for (char& letter : bundle.text) letter = static_cast<char>(random());
  EXPECT_THROW((void)write_bundle(bundle), nsa::Error);
  EXPECT_THAT(error_of_reading(std::string(kMostBundleBytes + 1, 'x')),
              HasSubstr("wanted at most"));
}

TEST(Bundle, ADamagedOneIsRefused) {
  const std::string bytes = write_bundle(some_bundle());
  EXPECT_THAT(error_of_reading(bytes.substr(0, bytes.size() - 9)), HasSubstr("f.tar.zst: "));
  std::vector<Member> members = read_archive(bytes, kRoomy, "f");
  for (std::size_t i = 0; i < members.size(); ++i) {
    std::vector<Member> damaged = members;
    damaged[i].content.back() = 'X';
    EXPECT_THAT(error_of_reading(write_archive(damaged)),
                HasSubstr("is not what its hash says: damaged or altered"))
        << members[i].name;
    std::vector<Member> fewer = members;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_NE(error_of_reading(write_archive(fewer)), "") << members[i].name;
  }
  members.insert(members.end() - 1, {"more.txt", "?"});
  EXPECT_THAT(error_of_reading(write_archive(members)), HasSubstr("not those that it says"));
}

// It would run whatever the stranger likes.
TEST(Bundle, ACommandIsRefused) {
  const std::string bytes = changed("case.json", [](json& document) {
    json& scenario = document["scenario"];
    scenario["kind"] = "command";
    scenario["command"] = {{"argv", {"rm", "-r", "/"}}};
    for (const char* part : {"model", "training", "parallel"}) scenario.erase(part);
  });
  EXPECT_THAT(error_of_reading(bytes), HasSubstr("it holds a command line"));
}

TEST(Bundle, ACaseReadsNoFileOfThisMachine) {
  for (const char* path : {"/etc/passwd", "../text", "texts/0.txt", "scenario.yaml"}) {
    const std::string bytes =
        changed("case.json", [&](json& document) { document["data"] = {path}; });
    EXPECT_THAT(error_of_reading(bytes), HasSubstr("reads another text than the bundle's")) << path;
  }
  EXPECT_THAT(error_of_reading(changed("original.json",
                                       [](json& document) { document["data"] = {"/etc/passwd"}; })),
              HasSubstr("reads another text"));
}

TEST(Bundle, WhatIsNoDescriptionIsRefused) {
  const std::map<std::string, std::function<void(json&)>> all = {
      {"format", [](json& says) { says["format"] = 2; }},
      {"no format", [](json& says) { says.erase("format"); }},
      {"no causes", [](json& says) { says["failing"]["causes"] = json::array(); }},
      {"outcome", [](json& says) { says["failing"]["outcome"] = "GOOD"; }},
      {"layers", [](json& says) { says["failing"]["causes"][0]["site"]["layers"] = {1e300}; }},
      {"step", [](json& says) { says["failing"]["causes"][0]["site"]["step"] = -1; }},
      {"site", [](json& says) { says["failing"]["causes"][0]["site"] = 3; }},
      {"pairs",
       [](json& says) {
         says["versions"] = {{1, 2}};
       }},
      {"tries", [](json& says) { says["shrinking"]["tries"] = 3; }},
      {"text", [](json& says) { says["shrinking"]["text"] = json::array(); }}};
  for (const auto& [what, change] : all) {
    EXPECT_NE(error_of_reading(changed("bundle.json", change)), "") << what;
  }
  EXPECT_EQ(error_of_reading(changed("bundle.json", [](json&) {})), "");
}

TEST(Bundle, AnyDamageBehindGoodHashesIsRefusedOrRead) {
  fakes::Mutator mutate(11, 4096);
  const std::vector<Member> whole = read_archive(write_bundle(some_bundle()), kRoomy, "f");
  for (int i = 0; i < 400; ++i) {
    std::vector<Member> members = whole;
    Member& one = i % 2 == 0 ? members.front() : member_named(members, "case.json");
    one.content = mutate(one.content);
    json says = json::parse(members.front().content, nullptr, false);
    if (&one != &members.front()) {
      says["members"]["case.json"] = {{"bytes", one.content.size()},
                                      {"hash", nsa::hash_hex(one.content)}};
      members.front().content = says.dump();
    }
    members.back().content = nsa::hash_hex(members.front().content) + "\n";
    try {
      const Bundle bundle = read_bundle(write_archive(members), "f");
      (void)write_bundle(bundle);  // what was read is one
    } catch (const nsa::Error& error) {
      EXPECT_LT(std::string(error.what()).size(), 4'096U);
    }
  }
}

TEST(Bundle, WhatDiffersIsTold) {
  const Pairs there = {{"commit", "a"}, {"cpu", "x"}, {"torch", "2.9"}};
  const Pairs here = {{"commit", "a"}, {"cpu", "y"}, {"cuda", "13.0"}};
  EXPECT_EQ(
      differences(there, here),
      (std::vector<std::string>{
          "cpu: x there, y here", "torch: 2.9 there, none here", "cuda: none there, 13.0 here"}));
}

}  // namespace
}  // namespace harness
