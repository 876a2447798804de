// Several trials of a foreign kernel together: one mistake is one finding, and no law is named that a right row refutes.
#include <gtest/gtest.h>

#include "harness/judge/patterns.h"
#include "tests/checks/planted.h"

namespace fixtures {
namespace {

// What the check says of a kernel that was planted.
std::vector<harness::Finding> findings_of(const std::string& name) {
  for (const Said& said : all_said()) {
    const bool is_asked = said.planted.check == "kernel_is_oracle" && said.planted.name == name;
    if (is_asked && said.check == "kernel_is_oracle") return said.result.findings;
  }
  ADD_FAILURE() << "no kernel is planted as: " << name;
  return {};
}

// The only one.
harness::Finding finding_of(const std::string& name) {
  const std::vector<harness::Finding> findings = findings_of(name);
  EXPECT_EQ(findings.size(), 1U) << name;
  return findings.empty() ? harness::Finding{} : worded(findings.front());
}

struct Partial {
  const char* name;
  const char* pattern;
  const char* there;  // the law that gives all of that part
};
constexpr Partial kPartial[] = {
    {"window one too long in every eighth row", "rows = 0 mod 8", ""},
    {"window one too long from row 9 on", "rows from 9 on", "one_longer"},
    {"one head twice as large", "head 3", ""},
    {"the second sequence of a batch is off", "sequence 1 of a batch", ""},
    {"twice as large, with large logits alone", "", ""}};

TEST(KernelFindings, NoLawIsNamedThatARightRowRefutes) {
  for (const Partial& of : kPartial) {
    const harness::Finding finding = finding_of(of.name);
    EXPECT_EQ(harness::law_of(finding.site), "") << of.name;
    EXPECT_FALSE(finding.site.detail.contains("laws")) << of.name;
    EXPECT_EQ(finding.facts.value("pattern", std::string()), of.pattern) << of.name;
    EXPECT_EQ(finding.facts.value("there", std::string()), of.there) << of.name;
    EXPECT_NE(finding.statement.find(of.pattern), std::string::npos) << finding.statement;
    EXPECT_NE(finding.statement.find("The first wrong row is row "), std::string::npos)
        << finding.statement;
  }
}

TEST(KernelFindings, ASequenceThatIsRightAloneIsToldSo) {
  EXPECT_NE(finding_of("the second sequence of a batch is off")
                .statement.find("Sequence 1 is right when it is called alone"),
            std::string::npos);
}

// In the first row with a key too many, six keys see each other right.
TEST(KernelFindings, TheFirstWrongRowHasItsNumbers) {
  const harness::Finding finding = finding_of("window one too long from row 9 on");
  EXPECT_EQ(finding.facts.at("first"), "row 9 of head 0 in sequence 0, with the inputs normal");
  EXPECT_NE(finding.facts.at("found").get<double>(), finding.facts.at("wanted").get<double>());
}

// Output and sums come from one softmax, gradients from one function.
TEST(KernelFindings, OneMistakeIsOneFinding) {
  const harness::Finding finding = finding_of("window one too long, and its sums");
  EXPECT_EQ(harness::law_of(finding.site), "one_longer");
  EXPECT_EQ(finding.facts.at("tensors"), (nlohmann::json{"o_win", "lse"}));
  EXPECT_EQ(harness::law_of(finding_of("a layer whose gates are turned").site),
            "sel_win_exchanged");
}

}  // namespace
}  // namespace fixtures
