// Reports of many cases: the golden file, what no grouping may hide, and how long they may become.
#include <algorithm>
#include <random>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "reports/markdown.h"
#include "reports/sections/by_scenario.h"
#include "tests/reports/golden.h"
#include "tests/reports/long_sample.h"

namespace {

using fixtures::at;
using fixtures::FakeStore;
using fixtures::LongRun;
using harness::Outcome;
using reports::escape;

std::string render(const FakeStore& store) {
  return reports::render_report(store, fixtures::request_for(store));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The lines of a section: from its heading to the next one, or a part that is folded under its name.
std::vector<std::string> section(const std::string& text, const std::string& title) {
  std::vector<std::string> found;
  bool headed = false;
  bool in_part = false;  // one that bears this name
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with("## ")) headed = line == "## " + title;
    in_part = in_part || line.starts_with("<summary>" + title);
    if (headed || in_part) found.push_back(line);
    if (line == "</details>") in_part = false;
  }
  return found;
}

// What is read without scrolling: all before the details.
std::vector<std::string> first_screen(const std::string& text) {
  std::vector<std::string> lines = lines_of(text);
  const auto end = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
    const bool heading = line.starts_with("## ") && !line.starts_with("## What failed") &&
                         !line.starts_with("## What was not decided");
    return heading || (line.starts_with("<summary>") && !line.starts_with("<summary>What passed"));
  });
  lines.erase(end, lines.end());
  return lines;
}

// Without what stands between fences: a command is code, and forms no markup.
std::string without_code(const std::string& text) {
  std::string rest;
  bool code = false;
  for (const std::string& line : lines_of(text)) {
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin != std::string::npos && line.substr(begin, 3) == "```") {
      code = !code;
    } else if (!code) {
      rest += line + "\n";
    }
  }
  return rest;
}

bool has(const std::string& line, const std::string& part) {
  return line.find(part) != std::string::npos;
}

std::int64_t count(const std::vector<std::string>& lines, const std::string& part) {
  return std::count_if(
      lines.begin(), lines.end(), [&](const std::string& line) { return has(line, part); });
}

// ---- laws over drawn runs -----------------------------------------------------------------------------------------------

constexpr const char* kNasty = "<b>`x` | @team *now*</b> http://evil.example\n# heading";

// Every outcome, many scenarios, few reasons; what workers say is nasty.
FakeStore drawn(unsigned seed) {
  std::mt19937 random(seed);
  const auto draw = [&](int below) { return static_cast<int>(random() % below); };
  LongRun run;
  const int cases = 13 + draw(70);
  const int scenarios = 1 + draw(9);
  for (int i = 0; i < cases; ++i) {
    const std::string scenario = "scenario_" + std::to_string(draw(scenarios));
    const std::string reason = "reason " + std::to_string(draw(12)) + kNasty;
    const std::vector<std::pair<std::string, std::string>> point = {
        at("training.seq_len", i), {kNasty, kNasty + std::to_string(draw(3))}};
    constexpr std::array kJudged = {Outcome::pass,
                                    Outcome::pass,
                                    Outcome::pass,
                                    Outcome::fail,
                                    Outcome::hang,
                                    Outcome::slow,
                                    Outcome::crash,
                                    Outcome::oom,
                                    Outcome::error,
                                    Outcome::inconclusive,
                                    Outcome::xfail,
                                    Outcome::xpass};
    const int kind = draw(static_cast<int>(kJudged.size()) + 3);
    if (kind < static_cast<int>(kJudged.size())) {
      run.add(scenario, point, fixtures::judged_as(kJudged[kind], reason));
      auto& verdict = run.store.case_rows.back().judgement->verdicts.front();
      verdict.reason = reason;
      verdict.measured.push_back({kNasty, 1.0, harness::Real(2.0)});
      run.store.case_rows.back().digest.metrics.emplace_back(kNasty, 1.0);
    } else if (kind == static_cast<int>(kJudged.size())) {
      run.refuse(scenario, reason);
    } else if (kind == static_cast<int>(kJudged.size()) + 1) {
      run.skip(scenario, reason);
    } else {
      run.add(scenario, point);
    }
  }
  return run.store;
}

constexpr unsigned kDraws = 25;

// What fixtures::failed() begins with.
constexpr const char* kFound =
    "GRAD.MISSING @ layer 3, param W_K_cmp, ranks 0-1, step 1** — The loss does not lead to ";

// "FAIL" of "3. **FAIL** name ...", "- **SKIP** name ..." or "**PASS** name ..."; "" of any other line.
std::string outcome_of_line(const std::string& line) {
  std::size_t at = 0;
  while (at < line.size() && std::isdigit(static_cast<unsigned char>(line[at])) != 0) ++at;
  if (at > 0 && line.substr(at, 2) == ". ") at += 2;
  if (line.substr(at, 2) == "- ") at += 2;
  if (line.substr(at, 2) != "**") return "";
  return line.substr(at + 2, line.find("**", at + 2) - at - 2);
}

std::string reason_of(const harness::CaseRecord& record) {
  if (!record.skip_reason.empty()) return record.skip_reason;
  return record.judgement ? record.judgement->reason : "never judged";
}

TEST(LongReport, NamesInItsFirstScreenWhateverDidNotPassWithItsCause) {
  for (unsigned seed = 0; seed < kDraws; ++seed) {
    const FakeStore store = drawn(seed);
    const auto screen = first_screen(render(store));
    for (const harness::CaseRecord& record : store.case_rows) {
      const Outcome outcome = harness::outcome_of(record);
      if (outcome == Outcome::pass) continue;
      const bool judged = record.judgement && !record.judgement->findings.empty();
      const bool known = outcome == Outcome::xfail || outcome == Outcome::inconclusive;
      const std::string cause = judged && !known
                                    ? ": **" + std::string(kFound) + "1 of 21 parameters"
                                    : ": " + escape(reason_of(record));
      const bool named = std::any_of(screen.begin(), screen.end(), [&](const std::string& line) {
        return outcome_of_line(line) == harness::name_of(outcome) && has(line, record.scenario) &&
               has(line, cause);
      });
      EXPECT_TRUE(named) << "seed " << seed << ": " << record.label << " " << reason_of(record);
    }
  }
}

TEST(LongReport, CountsEveryCaseOnceInItsFirstScreen) {
  for (unsigned seed = 0; seed < kDraws; ++seed) {
    const FakeStore store = drawn(seed);
    std::map<std::string, int> told;  // by outcome
    bool folded = false;
    for (const std::string& line : first_screen(render(store))) {
      folded = folded || line == "<details>";
      const std::string outcome = outcome_of_line(line);
      if (folded || outcome.empty()) continue;
      // "18 cases of 5 scenarios", "name (18 cases)", "name (18 of 20 cases: ...)" or one case.
      const std::string rest = line.substr(line.find("** ") + 3);
      int cases = 1;
      if (std::isdigit(static_cast<unsigned char>(rest.front())) != 0) {
        cases = std::stoi(rest);
      } else if (rest.find(" (") < rest.find(':') &&
                 std::isdigit(static_cast<unsigned char>(rest[rest.find(" (") + 2])) != 0) {
        cases = std::stoi(rest.substr(rest.find(" (") + 2));
      }
      told[outcome] += cases;
    }
    std::map<std::string, int> wanted;
    for (const auto& record : store.case_rows) {
      ++wanted[harness::name_of(harness::outcome_of(record))];
    }
    EXPECT_EQ(told, wanted) << "seed " << seed;
  }
}

// Under its own title, or among those of which the same is told.
bool is_told_once(const std::vector<std::string>& lines, const std::string& name) {
  const auto alike = std::count_if(lines.begin(), lines.end(), [&](const std::string& line) {
    const std::string before = "The same was found in ";
    return line.starts_with(before) &&
           (", " + line.substr(before.size(), line.size() - before.size() - 1) + ", ")
                   .find(", " + name + ", ") != std::string::npos;
  });
  return count(lines, "### " + name + ": ") + static_cast<int>(alike) == 1;
}

TEST(LongReport, TellsInFullTheChecksOfWhateverDidNotPass) {
  for (unsigned seed = 0; seed < kDraws; ++seed) {
    const FakeStore store = drawn(seed);
    const std::string text = render(store);
    const auto results = section(text, "Results");
    for (const harness::CaseRecord& record : store.case_rows) {
      const Outcome outcome = harness::outcome_of(record);
      const bool known = outcome == Outcome::pass || outcome == Outcome::xfail;
      if (known || !record.judgement || record.judgement->verdicts.empty()) continue;
      const auto title =
          std::find(results.begin(), results.end(), "### Checks of " + escape(record.label));
      ASSERT_NE(title, results.end()) << "seed " << seed << ": " << record.label;
      for (const auto& verdict : record.judgement->verdicts) {
        const std::string row = "| " + verdict.check + " | **" + harness::name_of(verdict.verdict) +
                                "** | " + escape(verdict.reason) + " |";
        EXPECT_NE(std::find(title, results.end(), row), results.end()) << row;
      }
      EXPECT_TRUE(is_told_once(section(text, "Critical findings"), escape(record.label)))
          << "seed " << seed << ": " << record.label;
    }
  }
}

TEST(LongReport, KeepsARowForEveryCase) {
  for (unsigned seed = 0; seed < kDraws; ++seed) {
    const FakeStore store = drawn(seed);
    const auto results = section(render(store), "Results");
    for (const harness::CaseRecord& record : store.case_rows) {
      const std::string row = std::string("| **") + harness::name_of(harness::outcome_of(record)) +
                              "** | " + escape(record.label) + " | ";
      EXPECT_GE(count(results, row), 1) << record.label;
    }
  }
}

TEST(LongReport, SummarisesTheWorstFirst) {
  const std::vector<std::string> order = {"FAIL",
                                          "HANG",
                                          "SLOW",
                                          "CRASH",
                                          "OOM",
                                          "XPASS",
                                          "ERROR",
                                          "INCONCLUSIVE",
                                          "XFAIL",
                                          "SKIP",
                                          "PASS"};
  for (unsigned seed = 0; seed < kDraws; ++seed) {
    FakeStore store = drawn(seed);
    for (const bool is_long : {true, false}) {
      if (!is_long) store.case_rows.resize(reports::kMostCasesInFull);
      std::vector<std::ptrdiff_t> found;
      for (const std::string& line : first_screen(render(store))) {
        const std::string outcome = outcome_of_line(line);
        if (outcome.empty()) continue;
        found.push_back(std::find(order.begin(), order.end(), outcome) - order.begin());
      }
      ASSERT_FALSE(found.empty());
      EXPECT_LT(found.back(), static_cast<std::ptrdiff_t>(order.size()));
      EXPECT_TRUE(std::is_sorted(found.begin(), found.end())) << "seed " << seed;
    }
  }
}

TEST(LongReport, SameRowsGiveSameBytes) {
  for (unsigned seed = 0; seed < kDraws; ++seed)
    EXPECT_EQ(render(drawn(seed)), render(drawn(seed)));
}

TEST(LongReport, TextOfWorkersFormsNoMarkup) {
  for (unsigned seed = 0; seed < kDraws; ++seed) {
    const std::string text = without_code(render(drawn(seed)));
    for (const char* markup : {"<b>", "@team", "http://evil", "\n# heading", "*now*"}) {
      EXPECT_EQ(text.find(markup), std::string::npos) << "seed " << seed << ": " << markup;
    }
    for (const std::string& line : lines_of(text)) EXPECT_FALSE(has(line, "`x`")) << line;
  }
}

TEST(LongReport, GrowsByAFewLinesAPassingCase) {
  constexpr std::ptrdiff_t kLines = 2;  // a row of the results, and one of the evidence
  const auto length = [](int passing, bool found) {
    LongRun run;
    fixtures::add_passing(run, "lengths", passing);
    if (found) {
      for (auto& record : run.store.case_rows) {
        record.judgement->findings = fixtures::failed().findings;
      }
    }
    run.add("broken", {}, fixtures::failed());
    return static_cast<std::ptrdiff_t>(lines_of(render(run.store)).size());
  };
  EXPECT_LE(length(200, false) - length(20, false), kLines * 180);
  EXPECT_LE(length(200, true) - length(20, true), (kLines + 1) * 180);  // and one of the findings
}

// ---- what decides, and each section ---------------------------------------------------------------------------------------

TEST(LongReport, IsTheGoldenFile) {
  fixtures::expect_golden("long.md", render(fixtures::long_store()));
}

TEST(LongReport, BeginsWithTheThirteenthCase) {
  for (const int cases : {12, 13}) {
    LongRun run;
    fixtures::add_passing(run, "lengths", cases);
    const std::string text = render(run.store);
    EXPECT_EQ(count(lines_of(text), "### Checks of"), cases == 13 ? 1 : 12);
    EXPECT_EQ(has(text, "| scenario | cases | PASS |"), cases == 13);
  }
}

// What a person who was woken up needs: three failures of three hundred, each with what to do, before any scrolling.
TEST(LongReport, OfThreeHundredCasesTheThreeThatFailedStandInTheFirstFortyLines) {
  LongRun run;
  for (int i = 0; i < 27; ++i) fixtures::add_passing(run, "scenario_" + std::to_string(i), 11);
  const std::vector<std::pair<std::string, std::string>> failures = {
      {"ddp_onestep", "GRAD.MISSING"}, {"causality", "CAUSALITY.LEAK"}, {"soak", "HANG.HOST"}};
  for (const auto& [scenario, code] : failures) {
    harness::Judgement judged = fixtures::failed();
    judged.findings[0].code = code;
    judged.findings[0].next_action = "look into " + scenario;
    run.add(scenario, {at("training.seq_len", 512)}, judged);
    run.describe(
        [&](harness::Scenario& one) { one.path = "/tree/scenarios/" + scenario + ".yaml"; });
  }
  ASSERT_EQ(run.store.case_rows.size(), 300U);
  run.store.run_rows[0].provenance.command = {{"program", "/tree/nsa-harness"},
                                              {"database", "/data/runs.db"},
                                              {"profile", "gpu"},
                                              {"set", "training.steps=2"}};
  std::vector<std::string> lines = lines_of(render(run.store));
  lines.resize(40);
  EXPECT_EQ(count(lines, "# NO-GO: 3 of 300 cases failed"), 1);
  EXPECT_EQ(count(lines, "**PASS** 297 cases of 27 scenarios: "), 1);
  for (const auto& [scenario, code] : failures) {
    EXPECT_EQ(count(lines, ". **FAIL** " + scenario + "\\[training.seq_len=512\\]"), 1) << scenario;
    EXPECT_EQ(count(lines, "**" + code + " @ layer 3, param W_K_cmp, ranks 0-1, step 1** — "), 1);
    EXPECT_EQ(count(lines, "Next: look into " + scenario), 1);
    EXPECT_EQ(count(lines,
                    "/tree/nsa-harness run /tree/scenarios/" + scenario +
                        ".yaml --profile gpu --set training.steps=2 --only training.seq_len=512 "
                        "--db /data/runs.db"),
              1);
  }
}

// A heading with nothing but a folded part below it tells nothing; nor does a table of what ran for the first time, where
// the first screen says that all did.
TEST(LongReport, OfWhatPassedHasNothingBelowTheFirstScreenButFoldedParts) {
  LongRun run;
  for (int i = 0; i < 27; ++i) fixtures::add_passing(run, "scenario_" + std::to_string(i), 11);
  std::vector<std::string> headings;
  for (const std::string& line : lines_of(render(run.store))) {
    if (line.starts_with("## ")) headings.push_back(line);
  }
  EXPECT_EQ(headings, (std::vector<std::string>{"## Results", "## Reproduce", "## Appendix"}));
}

TEST(LongReport, TellsWhichCasesOfAScenarioFailed) {
  LongRun run;
  for (int i = 0; i < 16; ++i) {
    const auto judged = i % 4 == 0 ? fixtures::failed() : fixtures::passed();
    run.add("lengths", {at("a", i % 4), at("b", i / 4)}, judged);
  }
  const auto screen = first_screen(render(run.store));
  EXPECT_EQ(count(screen,
                  "1. **FAIL** lengths (4 of 16 cases: a 0) (first time): **" +
                      std::string(kFound) + "1 of 21 parameters"),
            1);
  EXPECT_EQ(count(screen, "- **PASS** lengths (12 of 16 cases)"), 1);
}

TEST(LongReport, HasABulletForAPassingScenarioOfSeveralCases) {
  LongRun run;
  for (const char* name : {"a", "b", "c", "d", "e"}) fixtures::add_passing(run, name, 3);
  for (const char* name : {"f", "g", "h", "i"}) fixtures::add_passing(run, name, 1);
  const auto screen = first_screen(render(run.store));
  EXPECT_EQ(count(screen, "**PASS** 19 cases of 9 scenarios: a (3 cases), "), 1);
  EXPECT_EQ(count(screen, "- **PASS**"), 6);
  EXPECT_EQ(count(screen, "- **PASS** d (3 cases)"), 1);
  EXPECT_EQ(count(screen, "- **PASS** 4 cases of 4 scenarios (f, g, h, i)"), 1);
}

TEST(LongReport, NeverLeavesOutAFailure) {
  LongRun run;
  for (int i = 0; i < 60; ++i) {
    run.add("scenario_" + std::to_string(i),
            {},
            fixtures::judged_as(i < 30 ? Outcome::inconclusive : Outcome::fail,
                                "reason " + std::to_string(i)));
  }
  for (int i = 0; i < 60; ++i) run.skip("skipped_" + std::to_string(i), std::to_string(i) + " why");
  const auto screen = first_screen(render(run.store));
  EXPECT_EQ(count(screen, ". **FAIL**"), 30);
  EXPECT_EQ(count(screen, "```sh"), 10) << "the first ones have their commands";
  EXPECT_EQ(count(screen, "- **INCONCLUSIVE**"), 30);
  EXPECT_EQ(count(screen, "- **SKIP**"), 21);
  EXPECT_EQ(count(screen, "- **SKIP** and 40 cases of 40 scenarios more"), 1);
}

TEST(LongReport, NamesScenariosThatCouldNotRun) {
  LongRun run;
  for (int i = 0; i < 40; ++i) run.refuse("scenario_" + std::to_string(i), "needs 2 GPUs");
  for (int i = 0; i < 40; ++i) run.skip("skipped_" + std::to_string(i), "no profile");
  const auto screen = first_screen(render(run.store));
  EXPECT_EQ(count(screen, "1. **ERROR** 40 cases of 40 scenarios (scenario_0, "), 1);
  EXPECT_EQ(count(screen, "scenario_5 and 34 more): needs 2 GPUs"), 1);
  EXPECT_EQ(count(screen, "- **SKIP** 40 cases of 40 scenarios: no profile ("), 1);
  EXPECT_EQ(count(screen, "skipped_5 and 34 more)"), 1);
}

TEST(LongReport, SaysThatAPlantedFaultWasNotFound) {
  LongRun run;
  fixtures::add_passing(run, "kcmp_detached", 13);  // its fault is planted, and nothing is expected
  EXPECT_EQ(count(first_screen(render(run.store)),
                  "kcmp_detached (13 cases) (with the planted fault kcmp_detached)"),
            1);
}

TEST(LongReport, TellsNewsByCaseAndTheRestByScenario) {
  LongRun run(2);
  fixtures::add_passing(run, "lengths", 14);
  run.store.run_rows.insert(run.store.run_rows.begin(),
                            fixtures::sample_run(1, "20261120T030000Z-aaaa", 1'795'143'600'000));
  for (int i = 0; i < 5; ++i) {
    harness::CaseRecord before = run.store.case_rows[static_cast<std::size_t>(i)];
    before.id = 900 + i;
    before.run_id = 1;
    before.judgement = fixtures::failed();
    run.store.case_rows.push_back(before);
  }
  run.skip("skipped", "why");
  run.refuse("refused", "why");
  const auto changes = section(render(run.store), "What changed");
  std::vector<std::string> rows = changes;
  std::erase_if(rows, [](const std::string& line) { return !line.starts_with("| "); });
  EXPECT_EQ(rows,
            (std::vector<std::string>{
                "| change | case | before | now |",
                "| --- | --- | --- | --- |",
                "| fixed | lengths\\[training.seq_len=16\\] | FAIL (run run1) | PASS |",
                "| fixed | lengths\\[training.seq_len=32\\] | FAIL (run run1) | PASS |",
                "| fixed | lengths\\[training.seq_len=48\\] | FAIL (run run1) | PASS |",
                "| fixed | lengths\\[training.seq_len=64\\] | FAIL (run run1) | PASS |",
                "| fixed | lengths\\[training.seq_len=80\\] | FAIL (run run1) | PASS |",
                "| not decided | refused | – | ERROR |",
                "| change | case | before | now |",
                "| --- | --- | --- | --- |",
                "| not run | skipped | – | SKIP |",
                "| first time | lengths (9 cases) | – | PASS |"}));
}

TEST(LongReport, HasATableByScenario) {
  LongRun run;
  fixtures::add_passing(run, "lengths", 12);
  run.add("lengths", {at("training.seq_len", 99)}, fixtures::failed()).seconds = 5000.0;
  run.skip("skipped", "why");
  const auto results = section(render(run.store), "Results");
  EXPECT_EQ(count(results, "| scenario | cases | FAIL | SKIP | PASS | seconds, all | "), 1);
  EXPECT_EQ(count(results, "| lengths | 13 | 1 | – | 12 | 5,024 | 5,000 |"), 1);
  EXPECT_EQ(count(results, "| all | 14 | 1 | 1 | 12 | 5,026 | 5,000 |"), 1);
}

TEST(LongReport, CutsTheReasonOfAPassingCaseBetweenCharacters) {
  LongRun run;
  std::string reason(59, 'a');
  reason += "\xE2\x80\x93 and more";  // a dash of three bytes across the limit
  for (int i = 0; i < 13; ++i) {
    run.add("lengths", {at("training.seq_len", i)}, fixtures::judged_as(Outcome::pass, reason));
  }
  EXPECT_EQ(count(section(render(run.store), "Results"), "| " + std::string(59, 'a') + " ... |"),
            13);
}

TEST(LongReport, CountsHowOftenACheckPassed) {
  LongRun run;
  fixtures::add_passing(run, "lengths", 13);
  auto& odd = run.store.case_rows.front().judgement->verdicts[1];
  odd.verdict = harness::Verdict::inconclusive;
  odd.reason = "could not tell";
  const auto results = section(render(run.store), "Results");
  EXPECT_EQ(count(results, "| gradients_arrived | 13 of 13 | 21 of 21 parameters arrived"), 1);
  EXPECT_EQ(count(results, "| close_to_oracle | 12 of 13 | layer 0 is the oracle's |"), 1);
}

TEST(LongReport, TellsTheValueNearestToItsLimit) {
  LongRun run;
  for (int i = 0; i < 13; ++i) {
    harness::Judgement judged = fixtures::passed();
    judged.verdicts[1].measured = {
        {"below", 0.1 * i, harness::Real(2.0)},
        {"above", 3.0 + i, harness::Real(2.0)},
        {"not_a_number", i == 4 ? std::nan("") : 2.0, harness::Real(2.0)},
        {"at_zero", i == 5 ? 0.0 : -1.0, harness::Real(0.0)},
        {"free", 10.0 - i, std::nullopt},
        {"equal", 7.0, std::nullopt}};
    run.add("lengths", {at("training.seq_len", i)}, judged);
  }
  const auto measured = section(render(run.store), "Measured against limits");
  const auto row = [&](const std::string& text) {
    return count(measured, "| close_to_oracle | " + text);
  };
  EXPECT_EQ(row("below | 13 | 1.2 | 2 | 0.6 | training.seq_len=12 |"), 1);
  EXPECT_EQ(row("above | 13 | 3 | 2 | 1.5 | training.seq_len=0 |"), 1);
  EXPECT_EQ(row("not_a_number | 13 | NaN | 2 | NaN | training.seq_len=4 |"), 1);
  EXPECT_EQ(row("at_zero | 13 | 0 | 0 | – | training.seq_len=5 |"), 1);
  EXPECT_EQ(row("free | 13 | -2 – 10 | – | – | – |"), 1);
  EXPECT_EQ(row("equal | 13 | 7 | – | – | – |"), 1);
}

TEST(LongReport, TellsTheMiddleOfEachMetric) {
  LongRun run;
  for (int i = 0; i < 13; ++i) {
    auto& record = run.add("lengths", {at("training.seq_len", i)}, fixtures::passed());
    record.digest.metrics = {{"loss", 12.0 - i}, {"odd", i == 0 ? std::nan("") : 1.0 * i}};
    record.digest.phases = {{0, "forward", 1200},
                            {0, "backward", 3000 + i},
                            {1, "forward", 1200},
                            {1, "backward", 3000 + 2 * i}};
  }
  const auto metrics = section(render(run.store), "Metrics and timings");
  EXPECT_EQ(count(metrics, "| loss | 13 | 0 | 6 | 12 |"), 1);
  EXPECT_EQ(count(metrics, "| odd | 13 | 1 | 7 | NaN |"), 1);
  EXPECT_EQ(count(metrics, "| phase forward, ms | 13 | 1,200 | 1,200 | 1,200 |"), 1);
  EXPECT_EQ(count(metrics, "| phase backward, ms | 13 | 3,000 | 3,012 | 3,024 |"), 1);
  EXPECT_EQ(count(metrics, "xychart"), 0);
}

TEST(LongReport, ARankThatTakesByFarTheLongestInAPhaseIsNamed) {
  const auto told = [](std::int64_t data, std::int64_t forward, std::int64_t backward) {
    LongRun run;
    auto& record = run.add("one", {}, fixtures::passed());
    record.digest.phases = {{0, "data", 200},
                            {0, "forward", 1'000},
                            {0, "backward", 3'000},
                            {1, "data", data},
                            {1, "forward", forward},
                            {1, "backward", backward},
                            {harness::kTwin, "data", 9'000}};
    std::vector<std::string> lines;
    for (const std::string& line : section(render(run.store), "Metrics and timings")) {
      if (line.starts_with("Slowest in ")) lines.push_back(line);
    }
    return lines;
  };
  using Lines = std::vector<std::string>;
  EXPECT_EQ(told(1'810, 1'000, 1'400),
            Lines{"Slowest in data: rank 1 with 1,810 ms; the other one took 200 ms."});
  EXPECT_EQ(told(200, 600, 3'400),
            Lines{"Slowest in forward: rank 0 with 1,000 ms; the other one took 600 ms."});
  EXPECT_EQ(told(299, 1'000, 2'900), Lines{});   // not by far
  EXPECT_EQ(told(20, 1'000, 3'200), Lines{});    // of rank 0 it is little time
  EXPECT_EQ(told(200, 1'000, 30'000), Lines{});  // in a backward it waits
}

TEST(LongReport, TheLossOfALongRunIsAChartThatViewersTake) {
  LongRun run;
  auto& record = run.add("one", {}, fixtures::passed());
  std::vector<double>& losses = record.digest.series["loss"];
  losses.clear();
  for (int step = 1; step <= 100'000; ++step) losses.push_back(12'345.0 / step);
  const auto metrics = section(render(run.store), "Metrics and timings");
  EXPECT_EQ(count(metrics, "    x-axis \"step\" 1 --> 100000"), 1);
  std::size_t bytes = 0;
  for (const std::string& line : metrics) bytes += line.size();
  EXPECT_LT(bytes, 50'000U);
}

TEST(LongReport, TellsWhatTheCasesOfAScenarioHaveInCommon) {
  LongRun run;
  for (std::int64_t length = 16; length <= 208; length += 16) {
    run.add("lengths", {at("training.seq_len", length), at("model.w", 64)}, fixtures::passed());
    run.describe([&](harness::Scenario& one) { one.training.seq_len = length; });
  }
  run.skip("skipped", "why");
  run.refuse("refused", "why");
  const auto configuration = section(render(run.store), "Configuration");
  EXPECT_EQ(count(configuration, "### "), 1);
  EXPECT_EQ(count(configuration, "### lengths (13 cases)"), 1);
  EXPECT_EQ(count(configuration, "| route asked for | every seam reference |"), 1);
  EXPECT_EQ(count(configuration, "| training | 1 step, fp32, data text; the rest varies |"), 1);
  EXPECT_EQ(count(configuration,
                  "| varies | training.seq_len: 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, "
                  "176, 192, 208 |"),
            1);
  EXPECT_EQ(count(configuration, "- **ERROR** before anything ran: refused"), 1);
  EXPECT_EQ(count(configuration, "- **SKIP** before anything ran: skipped"), 1);
}

TEST(LongReport, LeavesToItsFindingWhatACaseExpects) {
  const std::string text = render(fixtures::long_store());
  EXPECT_EQ(count(section(text, "Critical findings"), "| **PASS** | first_key | first_key | GRAD"),
            1);
  EXPECT_EQ(count(section(text, "Configuration"), "| first_key | One optimiser step"), 1);
  for (const char* title : {"Measured against limits", "Metrics and timings", "Root cause"}) {
    EXPECT_EQ(count(section(text, title), "first_key"), 0) << title;
  }
  EXPECT_EQ(count(section(text, "Results"), "Checks of first_key"), 0);
}

TEST(LongReport, HasARowForTheEvidenceOfAPassingCase) {
  LongRun run;
  fixtures::add_passing(run, "lengths", 13);
  const auto evidence = section(render(run.store), "Evidence");
  EXPECT_EQ(count(evidence, "| case\\_2 | 0011223344556677 | 1 | 313 MB |") +
                count(evidence, "| case_2 | 0011223344556677 | 1 | 313 MB |"),
            1);
}

TEST(LongReport, OfSeveralRunsSaysWhichRunIsMeant) {
  LongRun run;
  fixtures::add_passing(run, "lengths", 14);
  harness::RunRecord second = fixtures::sample_run(2, "20261122T000000Z-eeee", 1'795'300'000'000);
  run.store.run_rows.push_back(second);
  harness::CaseRecord bad = run.store.case_rows.front();
  for (int i = 0; i < 2; ++i) {
    bad.id = 100 + i;
    bad.run_id = 2;
    bad.label += "x";
    bad.history_id = run.store.case_rows[static_cast<std::size_t>(i)].history_id;
    bad.judgement = fixtures::failed();
    run.store.case_rows.push_back(bad);
  }
  reports::ReportRequest request = fixtures::request_for(run.store);
  request.runs = run.store.run_rows;
  const std::string text = reports::render_report(run.store, request);
  EXPECT_EQ(count(first_screen(text),
                  "1. **FAIL** lengths (2 of 14 cases: training.seq_len 16; run "
                  "20261122T000000Z-eeee) (new): **GRAD.MISSING"),
            1)
      << text;
}

}  // namespace
