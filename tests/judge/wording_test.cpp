// Sentences of findings: every situation that a check can give has words, and they are plain sentences.
#include <cmath>
#include <iterator>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/judge/codes/codes.h"
#include "harness/judge/wording/find_wording.h"
#include "tests/checks/planted.h"

namespace {

using harness::Finding;
using harness::Wording;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::size_t kMostWords = 35;

// What stands in quotes is somebody else's text: one word.
std::vector<std::string> sentences_of(const std::string& text) {
  std::vector<std::string> sentences(1);
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') quoted = !quoted;
    sentences.back() += quoted && text[i] == ' ' ? '_' : text[i];
    const bool ends = (text[i] == '.' || text[i] == '?') && !quoted;
    if (ends && i + 1 < text.size() && text[i + 1] == ' ') sentences.emplace_back();
  }
  return sentences;
}

std::size_t words_in(const std::string& sentence) {
  std::istringstream words(sentence);
  std::size_t count = 0;
  for (std::string word; words >> word;) ++count;
  return count;
}

std::string without_quotes(const std::string& text) {
  std::string own;
  bool quoted = false;
  for (const char c : text) {
    if (c == '"') quoted = !quoted;
    if (!quoted) own += c;
  }
  return own;
}

void expect_plain(const std::string& text, const std::string& of) {
  if (text.empty()) return;
  EXPECT_TRUE(text.back() == '.' || text.back() == '?') << of << ": " << text;
  const std::string own = without_quotes(text);
  EXPECT_EQ(own.find_first_of("{}[]"), std::string::npos) << of << ": " << text;
  EXPECT_EQ(own.find("  "), std::string::npos) << of << ": " << text;
  for (const std::string& sentence : sentences_of(text)) {
    EXPECT_LE(words_in(sentence), kMostWords) << of << ": " << sentence;
  }
}

std::string situation_of(const Finding& finding) {
  return finding.code + "/" + finding.variant;
}

std::string situation_of(const Wording& words) {
  return std::string(words.code) + "/" + std::string(words.variant);
}

std::vector<std::string> listed(std::string_view details) {
  std::istringstream words{std::string(details)};
  return {std::istream_iterator<std::string>(words), {}};
}

// Every name that the situation's sentences use or that it lists.
std::set<std::string> used_by(const Wording& words) {
  std::set<std::string> used;
  const harness::Code* code = harness::find_code(words.code);
  for (const std::string_view pattern :
       {words.statement, words.ruled_out, words.next_action, code->next_action}) {
    for (const std::string& name : harness::names_in(pattern)) used.insert(name);
  }
  for (const std::string& name : listed(words.details)) used.insert(name);
  return used;
}

// Every finding of every planted defect by the check that it was planted for.
const std::vector<Finding>& given() {
  static const std::vector<Finding> kAll = [] {
    std::vector<Finding> all;
    for (const auto& [planted, check, result] : fixtures::all_said()) {
      if (check != planted.check) continue;
      all.insert(all.end(), result.findings.begin(), result.findings.end());
    }
    return all;
  }();
  return kAll;
}

TEST(Wording, EverySituationThatACheckGivesHasPlainWords) {
  for (const Finding& finding : given()) {
    const Wording* words = harness::find_wording(finding.code, finding.variant);
    ASSERT_NE(words, nullptr) << situation_of(finding);
    std::vector<std::string> missing;
    const harness::Code* code = harness::find_code(finding.code);
    for (const std::string_view pattern :
         {words->statement, words->ruled_out, words->next_action, code->next_action}) {
      expect_plain(harness::rendered(pattern, finding, &missing), situation_of(finding));
    }
    EXPECT_THAT(missing, ElementsAre()) << situation_of(finding) << " of " << finding.statement;
    EXPECT_FALSE(finding.statement.empty()) << situation_of(finding);
    EXPECT_FALSE(finding.next_action.empty()) << situation_of(finding);
  }
}

TEST(Wording, EveryFactIsToldOrListed) {
  for (const Finding& finding : given()) {
    const Wording* words = harness::find_wording(finding.code, finding.variant);
    ASSERT_NE(words, nullptr) << situation_of(finding);
    const std::set<std::string> used = used_by(*words);
    for (const auto& [name, value] : finding.facts.json().items()) {
      const bool counts_another = name.ends_with("_more");
      const std::string of = counts_another ? name.substr(0, name.size() - 5) : name;
      EXPECT_TRUE(used.count(of) > 0) << situation_of(finding) << " gives " << name;
    }
  }
}

TEST(Wording, EverySituationIsGivenByAPlantedDefect) {
  std::set<std::string> seen;
  for (const Finding& finding : given()) seen.insert(situation_of(finding));
  // Needs errors just below the limit in several operations at once.
  const std::string hard_to_plant = "NUMERIC.FORWARD/whole";
  for (const Wording& words : harness::all_wordings()) {
    EXPECT_NE(seen.count(situation_of(words)) > 0, situation_of(words) == hard_to_plant)
        << situation_of(words);
  }
}

// ---- patterns --------------------------------------------------------------------------------------------------------------

Finding sample() {
  Finding finding;
  finding.code = "GRAD.MISSING";
  finding.site.ranks = {0, 1, 2};
  finding.site.layers = {3};
  finding.site.step = 4;
  finding.site.detail["factor"] = 0.5;
  finding.facts =
      harness::Facts(nlohmann::json{{"count", 1},
                                    {"total", 195},
                                    {"params", {"a", "b"}},
                                    {"params_more", 7},
                                    {"bytes", 3 << 20},
                                    {"share", 0.25},
                                    {"issued", {{"rank 0", "this"}, {"rank 1", "that"}}}});
  return finding;
}

std::string of(std::string_view pattern) {
  return harness::rendered(pattern, sample());
}

TEST(Rendered, TakesFactsDetailsAndPartsOfTheSite) {
  EXPECT_EQ(of("{Ranks} and {layers} in {step}"), "Ranks 0-2 and layer 3 in step 4");
  EXPECT_EQ(of("{factor:2} of {params}"), "0.5 of a, b and 7 more");
  EXPECT_EQ(of("{count:parameter}, {total:parameter}"), "1 parameter, 195 parameters");
  EXPECT_EQ(of("{bytes:MiB}, {share:%}"), "3 MiB, 25 %");
  EXPECT_EQ(of("{issued}"), "rank 0: this; rank 1: that");
}

TEST(Rendered, ChoosesByNumber) {
  EXPECT_EQ(of("{ranks?was|were} {layers?was|were} {count?it|them} {total?it|them}"),
            "were was it them");
  EXPECT_EQ(of("{params?one|several}"), "several");
}

TEST(Rendered, LeavesOutWhatIsNotThere) {
  EXPECT_EQ(of("a[ on {branch}][ in {step}]."), "a in step 4.");
  std::vector<std::string> missing;
  EXPECT_EQ(harness::rendered("a {nothing}[ b {less}]", sample(), &missing), "a unknown");
  EXPECT_THAT(missing, ElementsAre("nothing"));
}

TEST(Rendered, NeverReadsAFactAsAPattern) {
  Finding finding = sample();
  finding.facts["message"] = "{ranks} [x] {";
  EXPECT_EQ(harness::rendered("says {message}", finding), "says {ranks} [x] {");
  finding.facts["message"] = harness::Real(std::nan(""));
  EXPECT_EQ(harness::rendered("{message:3}", finding), "NaN");
}

TEST(Rendered, AnUnknownSituationKeepsItsSentences) {
  Finding finding = sample();
  finding.variant = "of a later version";
  finding.statement = "As it was stored.";
  EXPECT_EQ(harness::worded(finding).statement, "As it was stored.");
}

TEST(Rendered, AStoredFindingIsToldAgainFromItsFacts) {
  for (const Finding& finding : given()) {
    Finding again = nlohmann::json::parse(nlohmann::json(finding).dump()).get<Finding>();
    again.statement = again.ruled_out = again.next_action = "";
    again = harness::worded(again);
    EXPECT_EQ(again.statement, finding.statement);
    EXPECT_EQ(again.ruled_out, finding.ruled_out);
    EXPECT_EQ(again.next_action, finding.next_action);
  }
}

}  // namespace
