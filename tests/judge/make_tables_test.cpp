// The program of the build that compiles the codes in: what is wrong with a file of codes is said with file and line.
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/wait.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/temp_folder.h"
#include "tests/fakes/where.h"

namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::string kGood = R"(texts:
  oracle: The oracle
codes:
  A.ONE:
    family: forward
    place: 10
    node: stage
    known_from: record
    meaning: It is "wrong".
    confirmed_by: The error.
    next_action: Look at {op}.
    witness: $oracle.
    variants:
      plain:
        statement: In {layers}[ in {step}], {count?it is|they are} wrong by {error:3}.
      twin:
        known_from: end_to_end
        statement: Wrong.
)";

const std::string kOther = R"(codes:
  B.TWO:
    family: loss
    place: 20
    outcome: CRASH
    node: loss
    known_from: record
    meaning: It is wrong.
    confirmed_by: The error.
    next_action: Look.
    witness: The oracle.
)";

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), with);
}

struct Made {
  int exit_code = -1;
  std::string said;
  std::string written;  // "": nothing
};

class MakeTables : public testing::Test {
 protected:
  Made made(const std::string& first, const std::string& second = kOther) {
    const std::string out = folder_ / "tables.cpp";
    const std::string command = fakes::programs() + "/nsa_make_tables " + out + " " +
                                folder_.write("first.yaml", first) + " " +
                                folder_.write("second.yaml", second) + " 2>&1";
    std::filesystem::remove(out);
    Made made;
    FILE* pipe = popen(command.c_str(), "r");
    std::array<char, 4096> bytes{};
    for (std::size_t got = 0; (got = fread(bytes.data(), 1, bytes.size(), pipe)) > 0;) {
      made.said.append(bytes.data(), got);
    }
    const int status = pclose(pipe);
    if (WIFEXITED(status)) made.exit_code = WEXITSTATUS(status);
    std::ifstream file(out);
    made.written.assign(std::istreambuf_iterator<char>(file), {});
    return made;
  }

  void expect_refused(const Made& made, const char* file, int line, const std::string& text) {
    EXPECT_EQ(made.exit_code, 1);
    EXPECT_THAT(made.said, StartsWith(folder_ / file + ":" + std::to_string(line) + ": " + text));
    EXPECT_EQ(made.written, "");
  }

  fakes::TempFolder folder_;
};

TEST_F(MakeTables, WritesCodesByFamilyAndPlaceWithTheirVariants) {
  const Made tables = made(kOther, kGood);
  EXPECT_EQ(tables.exit_code, 0) << tables.said;
  const std::size_t one =
      tables.written.find(R"(Code{"A.ONE", Family::forward, 10, Outcome::fail, Node::stage, )"
                          R"(Witness::record, "It is \"wrong\".", "The error.", )"
                          R"("Look at {op}.", "The oracle."})");
  const std::size_t two =
      tables.written.find(R"(Code{"B.TWO", Family::loss, 20, Outcome::crash, )");
  EXPECT_LT(one, two);
  EXPECT_NE(two, std::string::npos);
  EXPECT_THAT(tables.written, HasSubstr(R"("", "", "", Node::stage, Witness::record},
    Wording{"A.ONE", "twin", "Wrong.", "", "", "", Node::stage, Witness::end_to_end},)"));
}

TEST_F(MakeTables, WhatIsWrongWithARowIsSaidWithFileAndLine) {
  struct Wrong {
    const char* what;
    const char* with;
    int line;
    const char* said;
  };
  constexpr std::array kWrong = {
      Wrong{"family: forward",
            "family: forwards",
            5,
            "codes.A.ONE.family: found \"forwards\", wanted one of process, "},
      Wrong{"node: stage", "node: stages", 7, "codes.A.ONE.node: found \"stages\", wanted one of "},
      Wrong{"record", "records", 8, "codes.A.ONE.known_from: found \"records\", wanted one of "},
      Wrong{"end_to_end", "twin", 17, "codes.A.ONE.variants.twin.known_from: found \"twin\""},
      Wrong{"place: 10",
            "place: 10\n    outcome: BAD",
            7,
            "codes.A.ONE.outcome: found \"BAD\", wanted one of PASS, "},
      Wrong{"place: 10", "place: ten", 6, "codes.A.ONE.place: found \"ten\", wanted a whole "},
      Wrong{"twin:", "plain:", 16, "found the key \"plain\" twice, wanted it once"},
      Wrong{"    node: stage\n", "", 4, "codes.A.ONE: found no node, wanted one"},
      Wrong{"    known_from: record\n", "", 4, "codes.A.ONE: found no known_from, wanted one"},
      Wrong{"    meaning: It is \"wrong\".\n", "", 4, "codes.A.ONE: found no meaning, wanted one"},
      Wrong{"The error.", "''", 10, "codes.A.ONE.confirmed_by: found nothing, wanted a text"},
      Wrong{"        statement: Wrong.\n", "", 16, "codes.A.ONE.variants.twin: found no statement"},
      Wrong{"place: 10", "places: 10", 4, "codes.A.ONE: found no place, wanted one"},
      Wrong{"place: 10",
            "place: 10\n    check: x",
            7,
            "key of codes.A.ONE: found \"check\", wanted one of family, "},
      Wrong{"  oracle:",
            "  other:",
            12,
            "codes.A.ONE.witness: found $oracle, wanted the name of a text"},
      Wrong{"$oracle.", "The rank.", 2, "texts.oracle: found no use of it, wanted one"},
      Wrong{"[ in {step}]", "[ in {step}", 15, "codes.A.ONE.variants.plain.statement: found [ "},
      Wrong{"[ in {step}]", " in {step}]", 15, "codes.A.ONE.variants.plain.statement: found ] "},
      Wrong{"[ in {step}]", "[[ in {step}]]", 15, "codes.A.ONE.variants.plain.statement: found [ "},
      Wrong{"{op}", "{op", 11, "codes.A.ONE.next_action: found { without its other half"},
      Wrong{"{op}", "op}", 11, "codes.A.ONE.next_action: found } without its other half"},
      Wrong{
          "{op}", "{opp}", 11, "codes.A.ONE.next_action: found the slot {opp}, wanted a part of "},
      Wrong{"{op}", "{}", 11, "codes.A.ONE.next_action: found the slot {}, wanted {name}, "},
      Wrong{"{op}", "{:3}", 11, "codes.A.ONE.next_action: found the slot {:3}, wanted "},
      Wrong{"{op}", "{op:}", 11, "codes.A.ONE.next_action: found the slot {op:}, wanted "},
      Wrong{"{op}", "{op?one}", 11, "codes.A.ONE.next_action: found the slot {op?one}, wanted "}};
  for (const Wrong& wrong : kWrong) {
    SCOPED_TRACE(std::string(wrong.what) + " -> " + wrong.with);
    const Made tables = made(replaced(kGood, wrong.what, wrong.with));
    expect_refused(tables, "first.yaml", wrong.line, wrong.said);
  }
}

TEST_F(MakeTables, ACodeAndAPlaceStandOnceInAllFiles) {
  const std::string twice = "found it at " + (folder_ / "first.yaml:4") + " too, wanted it once";
  expect_refused(
      made(replaced(kGood, "A.ONE", "B.TWO")), "second.yaml", 2, "the code B.TWO: " + twice);
  expect_refused(
      made(replaced(kGood, "10", "20")), "second.yaml", 2, "the place of B.TWO: " + twice);
}

TEST_F(MakeTables, AFileHasCodesAndNoOtherKeys) {
  expect_refused(made("texts:\n"), "first.yaml", 1, "found no codes, wanted some");
  expect_refused(made("codes: [A]\n"), "first.yaml", 1, "codes: found a list, wanted a map");
  expect_refused(made("code:\n" + kGood), "first.yaml", 1, "key: found \"code\", wanted one of ");
}

}  // namespace
