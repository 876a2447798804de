// A tensor that the training did not use is a mistake of the record, and one that it used is not.
#include "harness/judge/unused_facts.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/checks/list.h"
#include "harness/judge/judge.h"
#include "tests/checks/planted.h"

namespace {

using harness::CheckResult;
using harness::Departed;
using harness::Evidence;
using harness::Outcome;
using harness::Verdict;
using testing::HasSubstr;
using testing::StartsWith;

// Facts are put right as rows of facts, which a made-up check reads.
Departed fact(const std::string& what, bool known = true) {
  Departed departed{what, what + "s"};
  if (known) {
    departed.put_right = [what](Evidence& evidence) {
      evidence.facts.push_back({0, 0, harness::Fact{"right", what}});
    };
  }
  return departed;
}

bool is_right(const Evidence& evidence, const std::string& what) {
  return std::any_of(evidence.facts.begin(), evidence.facts.end(), [&](const auto& from) {
    return from.row.value == what;
  });
}

CheckResult result_of(const std::vector<Departed>& departed) {
  CheckResult result;
  result.check = "made_up";
  result.departed = departed;
  result.verdict = departed.empty() ? Verdict::pass : Verdict::fail;
  if (departed.empty()) return result;
  harness::Finding finding;
  finding.code = "NUMERIC.FORWARD";
  finding.variant = "plain";
  result.findings.push_back(finding);
  return result;
}

using Departs = std::vector<Departed> (*)(const Evidence& evidence);

std::string asked(Departs departs) {
  const auto judge = [&](const Evidence& evidence) {
    return std::vector<CheckResult>{result_of(departs(evidence))};
  };
  const Evidence evidence;
  return harness::unused_fact(evidence, judge(evidence), judge);
}

TEST(UnusedFacts, ATensorWhoseReaderFollowsFromTheRightOne) {
  EXPECT_THAT(asked([](const Evidence& evidence) {
                return is_right(evidence, "q") ? std::vector<Departed>{}
                                               : std::vector<Departed>{fact("q"), fact("o", false)};
              }),
              StartsWith("q (qs) do not follow from the rest of the record"));
}

TEST(UnusedFacts, NothingIsSaidOfATensorThatNobodyReads) {
  EXPECT_EQ(asked([](const Evidence& evidence) {
              return is_right(evidence, "q") ? std::vector<Departed>{}
                                             : std::vector<Departed>{fact("q")};
            }),
            "");
}

TEST(UnusedFacts, AnErrorOfTheModelSpreads) {
  // Put right, the reader that followed from the wrong tensor does not follow any more, while another one does by chance.
  EXPECT_EQ(asked([](const Evidence& evidence) {
              return is_right(evidence, "q") ? std::vector<Departed>{fact("y", false)}
                                             : std::vector<Departed>{fact("q"), fact("o", false)};
            }),
            "");
}

TEST(UnusedFacts, WhatIsLeftOverIsAFinding) {
  EXPECT_EQ(asked([](const Evidence& evidence) {
              std::vector<Departed> all = {fact("loss", false)};
              if (!is_right(evidence, "q")) all.insert(all.end(), {fact("q"), fact("o", false)});
              return all;
            }),
            "");
}

TEST(UnusedFacts, TwoTensorsAreExchanged) {
  EXPECT_THAT(asked([](const Evidence& evidence) {
                std::vector<Departed> all;
                if (!is_right(evidence, "dy")) {
                  all.push_back(fact("dy"));
                  all.push_back(fact("g", false));
                }
                if (!is_right(evidence, "dx") || !is_right(evidence, "dy")) {
                  all.push_back(fact("dx"));
                  all.push_back(fact("norm", false));
                }
                return all;
              }),
              testing::AllOf(HasSubstr("dy (dys)"), HasSubstr("dx (dxs)")));
}

TEST(UnusedFacts, AReportIsReadByNobody) {
  EXPECT_THAT(asked([](const Evidence& evidence) {
                Departed report = fact("the loss");
                report.is_report = true;
                return is_right(evidence, "the loss") ? std::vector<Departed>{}
                                                      : std::vector<Departed>{report};
              }),
              StartsWith("the loss ("));
}

TEST(UnusedFacts, WhatCannotBeJudgedWhenItIsRightIsNotNamed) {
  const auto judge = [](const Evidence& evidence) {
    CheckResult result = result_of({fact("q"), fact("o", false)});
    if (is_right(evidence, "q")) result = CheckResult{};
    return std::vector<CheckResult>{result};
  };
  const Evidence evidence;
  EXPECT_EQ(harness::unused_fact(evidence, judge(evidence), judge), "");
}

TEST(UnusedFacts, MoreRoomAloneExplainsNothing) {
  const auto judge = [](bool bytes_count) {
    return [bytes_count](const Evidence& evidence) {
      Departed q = fact("q");
      q.put_right = [](Evidence& other) {
        other.stand_ins["file"]["q"] = {std::vector<std::byte>(4), 1.0};
      };
      const auto at = evidence.stand_ins.find("file");
      const bool right =
          at != evidence.stand_ins.end() && (!bytes_count || !at->second.at("q").bytes.empty());
      return std::vector<CheckResult>{
          result_of(right ? std::vector<Departed>{} : std::vector<Departed>{q, fact("o", false)})};
    };
  };
  const Evidence evidence;
  EXPECT_NE(harness::unused_fact(evidence, judge(true)(evidence), judge(true)), "");
  EXPECT_EQ(harness::unused_fact(evidence, judge(false)(evidence), judge(false)), "");
}

harness::Judgement judged(const fixtures::Healthy& healthy, const std::string& check) {
  harness::Evidence evidence = healthy.evidence;
  evidence.the_case.scenario.checks = {check};
  evidence.exposures.clear();  // invented numbers
  return harness::judge(evidence, harness::all_checks());
}

// The tensor in the file is another one than the layer computed with.
TEST(UnusedFacts, AStageOfALayerWithOtherBytes) {
  for (const std::string stage : {"q", "k_sel", "v_win", "o_cmp", "o_win", "gate"}) {
    fixtures::Healthy healthy(1, 1, "attention");
    fixtures::LayerTensors tensors = fixtures::healthy_layer(0, 1);
    std::vector<double>& numbers = tensors.reals.at(stage).data;
    std::rotate(numbers.begin(), numbers.begin() + 12, numbers.end());
    healthy.write_layer(0, 1, 0, 1, tensors);
    const auto judgement = judged(healthy, "close_to_oracle");
    EXPECT_EQ(judgement.outcome, Outcome::error) << stage << ": " << judgement.reason;
    EXPECT_THAT(judgement.reason, StartsWith("the record contradicts itself: " + stage + " in "));
    EXPECT_TRUE(judgement.findings.empty());
  }
}

// The layer computed with it.
TEST(UnusedFacts, AStageThatIsComputedWrongly) {
  for (const std::string stage : {"q", "k_sel", "v_win", "o_cmp", "o_win", "gate"}) {
    fixtures::Healthy healthy(1, 1, "attention");
    fixtures::LayerSetting setting;
    setting.spoil = [&](const std::string& name, oracles::Tensor& tensor) {
      if (name == stage)
        std::rotate(tensor.data.begin(), tensor.data.begin() + 12, tensor.data.end());
    };
    healthy.write_layer(0, 1, 0, 1, fixtures::made_layer(setting, 0, 1));
    EXPECT_EQ(judged(healthy, "close_to_oracle").outcome, Outcome::fail) << stage;
  }
}

std::string said_of(const std::string& check, const Evidence& evidence, const CheckResult& result) {
  return harness::unused_fact(evidence, std::vector{result}, [&](const Evidence& other) {
    return std::vector{fixtures::run(check, other)};
  });
}

TEST(UnusedFacts, NoPlantedDefectIsAMistakeOfTheRecord) {
  int departing = 0;
  int of_record = 0;
  for (const fixtures::Said& one : fixtures::all_said()) {
    const fixtures::Planted& planted = one.planted;
    if (one.result.departed.empty()) continue;
    fixtures::Healthy healthy(planted.ranks, planted.steps, planted.kind);
    planted.spoil(healthy);
    const std::string said = said_of(one.check, healthy.evidence, one.result);
    ++departing;
    if (planted.of_record) {
      of_record += said.empty() ? 0 : 1;
    } else {
      EXPECT_EQ(said, "") << one.check << ": " << planted.name;
    }
  }
  EXPECT_GT(departing, 50);
  EXPECT_GT(of_record, 4);
}

// Later gradients were reduced from the hook. After the last step nothing shows it.
TEST(UnusedFacts, AHookThatWasThereLater) {
  const std::string check = "gradients_arrived";
  const auto said = [&](const Evidence& evidence) {
    return said_of(check, evidence, fixtures::run(check, evidence));
  };
  for (const std::int64_t last_lost : {1, 2, 3}) {
    fixtures::Healthy healthy(2, 3);
    for (auto& row : healthy.evidence.gradients) {
      const bool lost = row.process >= 0 && row.row.step <= last_lost && row.row.index == 0;
      if (lost && row.row.step + 1 >= last_lost) row.row.hooks_found = 0;
    }
    EXPECT_THAT(said(healthy.evidence), StartsWith("the hooks found of"));
  }
  fixtures::Healthy healthy(2, 3);
  for (auto& row : healthy.evidence.gradients) {
    if (row.process >= 0 && row.row.step == 3 && row.row.index == 0) row.row.hooks_found = 0;
  }
  EXPECT_EQ(said(healthy.evidence), "");
}

}  // namespace
