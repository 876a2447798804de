// The event codec: what is written comes back, and nothing else is taken.
#include "harness/evidence/event.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "harness/evidence/evidence.h"
#include "harness/evidence/gradient_line.h"
#include "nsa/base/error.h"
#include "tests/fakes/error_of.h"

namespace harness {
namespace {

std::string line_with(const std::string& key, const std::string& value) {
  nlohmann::json line = {
      {"process", 0}, {"t_ms", 1}, {"kind", "phase"}, {"body", nlohmann::json::object()}};
  line[key] = nlohmann::json::parse(value);
  return line.dump();
}

TEST(EventCodec, RoundTrip) {
  const Event event = Event::of(3, 1234, Sample{"loss", 7, 0.1});
  const Event again = decode_event(encode_event(event));
  EXPECT_EQ(again.process, 3);
  EXPECT_EQ(again.t_ms, 1234);
  EXPECT_EQ(again.kind, "sample");
  EXPECT_EQ(again.body, event.body);
}

TEST(EventCodec, LineHasNoNewlineWhateverTheText) {
  const std::string line = encode_event(Event::of(0, 0, Fact{"a\nb", std::string("\0\xff\n", 3)}));
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_NO_THROW((void)decode_event(line)) << "invalid UTF-8 was replaced";
}

// Gradients have a writer of their own: byte by byte what the codec writes.
TEST(EventCodec, AGradientsLineIsTheCodecs) {
  Gradient row;
  row.step = 7;
  row.of_rank = 1;
  row.param = "layers.0.attention.w_q";
  row.index = 194;
  row.reachable = Reach::yes;
  row.ready_count = 1;
  row.ready_order = 12;
  row.bucket = 3;
  row.hooks_expected = row.hooks_found = 2;
  row.state = kUnread;
  row.reduced = true;
  Gradient strange = row;
  strange.param = std::string("a\"b\\c\n\xff\x7f", 8);
  strange.reachable = Reach::unknown;
  strange.l2 = std::numeric_limits<double>::quiet_NaN();
  strange.absmax = -0.0;
  strange.hash_before = "0123456789abcdef";
  strange.step = std::numeric_limits<std::int64_t>::min();
  Gradient fresh;
  fresh.reachable = Reach::no;
  fresh.l2 = 0.1;
  fresh.absmax = std::numeric_limits<double>::infinity();
  for (const Gradient& one : {row, strange, fresh}) {
    std::string line = "before\n";
    append_line(line, -2, 1234, one);
    EXPECT_EQ(line, "before\n" + encode_event(Event::of(-2, 1234, one)) + "\n");
  }
}

class IeeeSpecial : public ::testing::TestWithParam<double> {};

TEST_P(IeeeSpecial, SurvivesTheLine) {
  Evidence evidence;
  evidence.add(decode_event(encode_event(Event::of(0, 0, Sample{"x", 1, GetParam()}))));
  const double found = evidence.samples.at(0).row.value;
  if (std::isnan(GetParam())) {
    EXPECT_TRUE(std::isnan(found));
  } else {
    EXPECT_EQ(found, GetParam());
    EXPECT_EQ(std::signbit(found), std::signbit(GetParam()));
  }
}

INSTANTIATE_TEST_SUITE_P(Values,
                         IeeeSpecial,
                         ::testing::Values(0.0,
                                           -0.0,
                                           std::numeric_limits<double>::quiet_NaN(),
                                           std::numeric_limits<double>::infinity(),
                                           -std::numeric_limits<double>::infinity(),
                                           std::numeric_limits<double>::denorm_min(),
                                           std::numeric_limits<double>::max(),
                                           std::numeric_limits<double>::lowest(),
                                           0.1,
                                           1e16,
                                           9007199254740993.0));

class Malformed : public ::testing::TestWithParam<std::string> {};

TEST_P(Malformed, IsRefusedByAnError) {
  EXPECT_THROW((void)decode_event(GetParam()), nsa::Error) << GetParam();
}

INSTANTIATE_TEST_SUITE_P(
    Lines,
    Malformed,
    ::testing::Values("",
                      "garbage",
                      "{",
                      "[]",
                      "null",
                      "{}",
                      "\"text\"",
                      R"({"process":0,"t_ms":1,"kind":"phase"})",
                      R"({"process":0,"t_ms":1,"kind":"phase","body":{},"more":1})",
                      R"({"process":0,"t_ms":1,"kind":"phase","body":{}} x)",
                      "{\"process\":0,\"t_ms\":1,\"kind\":\"phase\",\"body\":{\"phase\":\"\xff\"}}",
                      line_with("process", "1.5"),
                      line_with("process", "\"0\""),
                      line_with("process", "-4"),
                      line_with("process", "4294967296"),
                      line_with("process", "18446744073709551615"),
                      line_with("t_ms", "-1"),
                      line_with("t_ms", "1e300"),
                      line_with("t_ms", "true"),
                      line_with("kind", "1"),
                      line_with("kind", "\"\""),
                      line_with("kind", "\"Phase\""),
                      line_with("kind", "\"a b\""),
                      line_with("kind", "\"" + std::string(65, 'a') + "\""),
                      line_with("body", "[]"),
                      line_with("body", "null"),
                      line_with("body", "\"x\"")));

TEST(EventCodec, TooLongIsRefusedBeforeItIsParsed) {
  const std::string line = line_with("body", "{}") + std::string(kMaxEventBytes, ' ');
  EXPECT_NE(error_of([&] { (void)decode_event(line); }).find("at most"), std::string::npos);
}

TEST(EventCodec, DeepNestingIsRefusedWithoutRecursion) {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_NE(error_of([&] { (void)decode_event(deep); }).find("nested"), std::string::npos);
  EXPECT_NO_THROW(
      (void)decode_event(encode_event(Event::of(0, 0, Fact{"brackets", std::string(100, '[')}))));
  EXPECT_NO_THROW((void)decode_event(
      encode_event(Event::of(0, 0, Fact{"quotes", "\\\"[[[[[[[[[[[[[[[[[[[["}))));
}

}  // namespace
}  // namespace harness
