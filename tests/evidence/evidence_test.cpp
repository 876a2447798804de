// Evidence from events: every kind reaches its own list, and a row of another shape reaches none.
#include "harness/evidence/evidence.h"

#include <gtest/gtest.h>

#include "nsa/base/error.h"
#include "tests/fakes/error_of.h"

namespace harness {
namespace {

Event with(const std::string& kind, const std::string& body) {
  return {0, 5, kind, nlohmann::json::parse(body)};
}

template <typename Row>
void expect_in(const Rows<Row> Evidence::*member) {
  Evidence evidence;
  evidence.add(Event::of(2, 7, Row{}));
  ASSERT_EQ((evidence.*member).size(), 1u) << Row::kKind;
  EXPECT_EQ((evidence.*member)[0].process, 2);
  EXPECT_EQ((evidence.*member)[0].t_ms, 7);
}

TEST(Evidence, EveryKindReachesItsList) {
  expect_in(&Evidence::hellos);
  expect_in(&Evidence::phases);
  expect_in(&Evidence::heartbeats);
  expect_in(&Evidence::samples);
  expect_in(&Evidence::gradients);
  expect_in(&Evidence::buckets);
  expect_in(&Evidence::collectives);
  expect_in(&Evidence::collectives_done);
  expect_in(&Evidence::parameters);
  expect_in(&Evidence::digests);
  expect_in(&Evidence::tensor_digests);
  expect_in(&Evidence::batches);
  expect_in(&Evidence::routes);
  expect_in(&Evidence::refusals);
  expect_in(&Evidence::route_choices);
  expect_in(&Evidence::kernels);
  expect_in(&Evidence::exposures);
  expect_in(&Evidence::errors);
  expect_in(&Evidence::faults_fired);
  expect_in(&Evidence::done);
  expect_in(&Evidence::started);
  expect_in(&Evidence::exited);
  expect_in(&Evidence::observations);
  expect_in(&Evidence::suspects);
  expect_in(&Evidence::stopped);
  expect_in(&Evidence::relaunches);
  Evidence evidence;
  evidence.add(with("fact", R"({"name":"a"})"));
  evidence.add(with("rejected", R"({"name":"b"})"));
  evidence.add(with("artefact", R"({"path":"rank_0/y.st"})"));
  EXPECT_EQ(evidence.facts.at(0).row.name, "a");
  EXPECT_EQ(evidence.rejected.at(0).row.name, "b");
  EXPECT_EQ(evidence.artefacts.at(0).row.path, "rank_0/y.st");
}

TEST(Evidence, OfLivesTheLastOneIsTold) {
  Evidence evidence;
  const auto add = [&](int process, std::int64_t t_ms, const auto& row) {
    evidence.add(Event::of(process, t_ms, row));
  };
  WorkerError error;
  error.what = "of the first life";
  Exited killed;
  killed.process_ended = 0;
  killed.signal = 9;
  add(0, 1, Done{});
  add(0, 2, error);
  add(kController, 5, killed);
  EXPECT_TRUE(evidence.finished(0));
  add(kController, 5, Relaunched{1, "killed in step 1, phase save"});
  EXPECT_FALSE(evidence.finished(0));
  EXPECT_EQ(evidence.exit_of(0), nullptr);
  EXPECT_EQ(evidence.error_of(0), nullptr);
  Exited ended;
  ended.process_ended = 0;
  ended.exit_code = 0;
  add(0, 8, Done{});
  add(kController, 9, ended);
  EXPECT_TRUE(evidence.finished(0));
  EXPECT_EQ(evidence.exit_of(0)->exit_code, 0);
  const Evidence last = evidence.last_life();
  EXPECT_EQ(last.done.size(), 1u);
  EXPECT_EQ(last.exited.size(), 1u);
  EXPECT_TRUE(last.errors.empty());
  EXPECT_EQ(evidence.exited.size(), 2u) << "nothing is lost";
}

class WrongRow : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(WrongRow, IsRefusedAndAddsNothing) {
  Evidence evidence;
  EXPECT_THROW(evidence.add(with(GetParam().first, GetParam().second)), nsa::Error)
      << GetParam().second;
  EXPECT_TRUE(evidence.samples.empty() && evidence.phases.empty() && evidence.artefacts.empty());
  EXPECT_THROW(check_row(with(GetParam().first, GetParam().second)), nsa::Error);
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    WrongRow,
    ::testing::Values(std::pair{"unheard_of", "{}"},
                      std::pair{"phase", R"({"phase":1})"},
                      std::pair{"phase", R"({"step":"1"})"},
                      std::pair{"phase", R"({"step":1.5})"},
                      std::pair{"phase", R"({"step":1e300})"},
                      std::pair{"phase", R"({"step":18446744073709551615})"},
                      std::pair{"phase", R"({"colour":1})"},
                      std::pair{"gradient", R"({"index":4294967296})"},
                      std::pair{"gradient", R"({"reachable":1})"},
                      std::pair{"gradient", R"({"reachable":"perhaps"})"},
                      std::pair{"sample", R"({"value":"much"})"},
                      std::pair{"sample", R"({"value":null})"},
                      std::pair{"sample", R"({"value":[1]})"},
                      std::pair{"bucket", R"({"params":[1.5]})"},
                      std::pair{"bucket", R"({"params":[1e300]})"},
                      std::pair{"bucket", R"({"params":[4294967296]})"},
                      std::pair{"bucket", R"({"params":["a"]})"},
                      std::pair{"bucket", R"({"params":{}})"},
                      std::pair{"heartbeat", R"({"counters":[]})"},
                      std::pair{"heartbeat", R"({"counters":{"hooks":"x"}})"},
                      std::pair{"heartbeat", R"({"counters":{"hocks":1}})"},
                      std::pair{"observation", R"({"threads":[1]})"},
                      std::pair{"observation", R"({"threads":[{"frames":[1]}]})"},
                      std::pair{"artefact", R"({"path":""})"},
                      std::pair{"artefact", R"({"path":"/etc/passwd"})"},
                      std::pair{"artefact", R"({"path":"rank_0/../../b"})"},
                      std::pair{"artefact", R"({"path":"rank_0/./b"})"},
                      std::pair{"artefact", R"({"path":"rank_0/"})"},
                      std::pair{"artefact", R"({"path":"rank_0"})"},
                      std::pair{"artefact", R"({"path":"rank_1/b"})"},
                      std::pair{"artefact", R"({"path":"rank_00/b"})"},
                      std::pair{"artefact", R"({"path":"twin_of_0/b"})"},
                      std::pair{"artefact", R"({"path":"events.jsonl"})"},
                      std::pair{"artefact", R"({"path":"case.json"})"},
                      std::pair{"artefact", R"({"path":"verdicts.jsonl"})"},
                      std::pair{"artefact", R"({"path":"../run.json"})"},
                      std::pair{"artefact", R"({"path":".."})"},
                      std::pair{"artefact", R"({"path":"rank_0/a","bytes":-1})"}));

TEST(Evidence, ErrorNamesKindAndValue) {
  const std::string message = error_of([] { check_row(with("phase", R"({"step":"1"})")); });
  EXPECT_NE(message.find("phase"), std::string::npos);
  EXPECT_NE(message.find("step"), std::string::npos);
}

TEST(Evidence, WorkersMayNotWriteTheControllersKinds) {
  for (const char* kind : {"started", "exited", "suspect", "stopped", "rejected", "unheard_of"}) {
    EXPECT_FALSE(is_worker_kind(kind)) << kind;
  }
  for (const char* kind : {"hello", "heartbeat", "sample", "observation", "done", "error"}) {
    EXPECT_TRUE(is_worker_kind(kind)) << kind;
  }
}

WorkerError error_named(const std::string& type) {
  WorkerError error;
  error.type = type;
  return error;
}

TEST(Evidence, Helpers) {
  Evidence evidence;
  evidence.folder = "/run/case";
  evidence.the_case.scenario.parallel.ranks = 3;
  EXPECT_EQ(evidence.ranks(), 3);
  EXPECT_FALSE(evidence.finished(0));
  EXPECT_EQ(evidence.exit_of(0), nullptr);
  evidence.add(Event::of(0, 1, Done{}));
  evidence.add(Event::of(kController, 2, Exited{1, 7}));
  evidence.add(Event::of(1, 2, error_named("first")));
  evidence.add(Event::of(1, 3, error_named("second")));
  EXPECT_TRUE(evidence.finished(0));
  EXPECT_FALSE(evidence.twin_ran());
  EXPECT_EQ(evidence.exit_of(0), nullptr);
  EXPECT_EQ(evidence.exit_of(1)->exit_code, 7);
  EXPECT_EQ(evidence.error_of(1)->type, "first");
  evidence.add(Event::of(1, 4, Artefact{2, 1, "weights", -1, "rank_1/old.st", 1, "hash"}));
  evidence.add(Event::of(1, 4, Artefact{2, 1, "weights", -1, "rank_1/new.st", 1, "hash"}));
  EXPECT_EQ(evidence.artefact(1, "weights", 2, 1), "/run/case/rank_1/new.st");
  EXPECT_EQ(evidence.artefact(1, "weights", 3, 1), "");
  EXPECT_EQ(evidence.artefact(0, "weights", 2, 1), "");
}

}  // namespace
}  // namespace harness
