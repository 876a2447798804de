#include "nsa/base/yaml.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/error_of.h"
#include "tests/fakes/temp_folder.h"

namespace {

using nsa::YamlNode;
using testing::HasSubstr;
using testing::StartsWith;

std::string refusal(const std::string& text) {
  return error_of([&] { (void)nsa::parse_yaml(text, "f.yaml"); });
}

TEST(Yaml, KeepsTheLineOfEveryValue) {
  const YamlNode root = nsa::parse_yaml("a: 1\nb:\n  c: [1,\n    2]\nd:\ne: {f: 'x'}\n", "f.yaml");
  EXPECT_EQ(root.find("a")->where.line, 1);
  EXPECT_EQ(root.find("b")->where.line, 2);
  EXPECT_EQ(root.find("b")->find("c")->where.text(), "f.yaml:3");
  EXPECT_EQ(root.find("b")->find("c")->items[1].where.line, 4);
  EXPECT_EQ(root.find("d")->where.line, 5) << "a missing value stands at its key";
  EXPECT_EQ(root.find("d")->kind, YamlNode::Kind::null);
  EXPECT_TRUE(root.find("e")->find("f")->quoted);
  EXPECT_EQ(nsa::parse_yaml("[[1, 2], [[3]], []]", "f").items[1].items[0].items[0].scalar, "3");
}

struct Refused {
  const char* text;
  const char* message;
};

TEST(Yaml, RefusesWhatIsNotAPlainTree) {
  const std::vector<Refused> table = {
      {"a: &x 1\nb: *x\n", "f.yaml:1: found an anchor"},
      {"a: &x [1]\n", "f.yaml:1: found an anchor"},
      {"a: &x {b: 1}\n", "f.yaml:1: found an anchor"},
      {"\na: &x\n", "f.yaml:2: found an anchor"},
      {"a: *x\n", "f.yaml:1: "},
      {"a: !!str 1\n", "f.yaml:1: found a tag"},
      {"a: !x {b: 1}\n", "f.yaml:1: found a tag"},
      {"a: !x [1]\n", "f.yaml:1: found a tag"},
      {"a: 1\nb: 2\na: 3\n", "f.yaml:3: found the key \"a\" twice"},
      {"a: {b: 1, \"b\": 2}\n", "f.yaml:1: found the key \"b\" twice"},
      {"a: 1\n---\nb: 2\n", "f.yaml:2: found a second document"},
      {"? [a, b]\n: 1\n", "f.yaml:1: found a list or map as key"},
      {"? {a: b}\n: 1\n", "f.yaml:1: found a list or map as key"},
      {"~: 1\n", "f.yaml:1: found an empty key"},
      {"a: [1\n", "not valid YAML"},
      {"a: \"\\q\"\n", "f.yaml:1: not valid YAML"},
      {"a: 1\n b: 2\n", "f.yaml:2: not valid YAML"},
  };
  for (const Refused& row : table)
    EXPECT_THAT(refusal(row.text), HasSubstr(row.message)) << row.text;
}

TEST(Yaml, RefusesAnAliasBomb) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 9; ++j) bomb += (j > 0 ? ", *a" : "*a") + std::to_string(i - 1);
    bomb += "]\n";
  }
  EXPECT_THAT(refusal(bomb), StartsWith("f.yaml:1: found an anchor"));
}

TEST(Yaml, RefusesBytesThatAreNoText) {
  EXPECT_THAT(refusal("a: 1\nb: \xff\n"), StartsWith("f.yaml:2: found bytes that are no UTF-8"));
  EXPECT_THAT(refusal(std::string("a: 1\n\n\0", 7)), StartsWith("f.yaml:3: found a NUL"));
  for (const char* bad :
       {"\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\x80", "\xf8\x88"}) {
    EXPECT_THAT(refusal(bad), HasSubstr("no UTF-8")) << bad;
  }
  EXPECT_EQ(nsa::parse_yaml("a: \"\xf0\x9f\x98\x80 \xe2\x89\xa1\"", "f").find("a")->scalar,
            "\xf0\x9f\x98\x80 \xe2\x89\xa1");
}

TEST(Yaml, RefusesWhatIsTooMuch) {
  EXPECT_THAT(refusal(std::string((1U << 20U) + 1, ' ')), HasSubstr("wanted at most 1048576"));
  std::string deep;
  for (int i = 0; i < 32; ++i) deep += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  EXPECT_EQ(refusal(deep), "no error") << "32 maps";
  deep += std::string(32, ' ') + "a: 1\n";
  EXPECT_THAT(refusal(deep), StartsWith("f.yaml:33: found more than 32 levels"));
  EXPECT_NE(refusal(std::string(100'000, '[')), "no error");
  EXPECT_NE(refusal(std::string(100'000, '{')), "no error");
  std::string many = "[";
  for (int i = 0; i < 100'001; ++i) many += "a,";
  EXPECT_THAT(refusal(many + "]"), HasSubstr("more than 100000 values"));
}

TEST(Yaml, EmptyTextIsNothing) {
  for (const char* text : {"", "\n\n", "# only a comment\n", "~"}) {
    EXPECT_EQ(nsa::parse_yaml(text, "f").kind, YamlNode::Kind::null) << text;
  }
}

TEST(Yaml, ReadsTypesStrictly) {
  const YamlNode root = nsa::parse_yaml(
      "int: 12\nquoted: '12'\nfloat: 1.5\nflag: true\nyes: yes\nlist: [1, 2]\nnone:\n", "f.yaml");
  const auto at = [&](const char* key) -> const YamlNode& { return *root.find(key); };
  EXPECT_EQ(nsa::read_int(at("int"), "x"), 12);
  EXPECT_EQ(nsa::read_double(at("int"), "x"), 12.0);
  EXPECT_TRUE(nsa::read_bool(at("flag"), "x"));
  EXPECT_EQ(nsa::read_text(at("int"), "x"), "12");
  EXPECT_EQ(nsa::read_ints(at("list"), "x"), (std::vector<int>{1, 2}));
  EXPECT_EQ(error_of([&] { (void)nsa::read_int(at("quoted"), "model.dim"); }),
            "f.yaml:2: model.dim: found \"12\", wanted a whole number");
  EXPECT_THAT(error_of([&] { (void)nsa::read_int(at("float"), "x"); }), HasSubstr("f.yaml:3: x"));
  EXPECT_THAT(error_of([&] { (void)nsa::read_bool(at("yes"), "x"); }), HasSubstr("true or false"));
  EXPECT_THAT(error_of([&] { (void)nsa::read_text(at("list"), "x"); }), HasSubstr("found a list"));
  EXPECT_THAT(error_of([&] { (void)nsa::read_text(at("none"), "x"); }), HasSubstr("found nothing"));
  const YamlNode big = nsa::parse_yaml("[4294967296]", "f");
  EXPECT_THAT(error_of([&] { (void)nsa::read_ints(big, "x"); }), HasSubstr("32 bits"));
}

TEST(Yaml, AMapKnowsWhatWasAskedFor) {
  const YamlNode root = nsa::parse_yaml("ranks: 2\nbackend: gloo\nbucketmb: 3\n", "f.yaml");
  nsa::YamlMap map(root, "parallel");
  std::int64_t ranks = 0;
  std::string backend;
  double bucket = 25.0;
  map.read("ranks", ranks);
  map.read("backend", backend);
  map.read("bucket_mb", bucket);
  EXPECT_EQ(ranks, 2);
  EXPECT_EQ(bucket, 25.0) << "left alone";
  EXPECT_EQ(
      error_of([&] { map.finish(); }),
      "f.yaml:3: key of parallel: found \"bucketmb\", wanted one of ranks, backend, bucket_mb; "
      "did you mean \"bucket_mb\"?");
}

TEST(Yaml, AHintStandsBehindNoPageOfNames) {
  std::vector<std::string> known = {"first_key"};
  for (int i = 0; i < 49; ++i) known.push_back("other_fault_" + std::to_string(i));
  const auto refused = [&](const std::string& found) {
    return error_of([&] { nsa::throw_unknown_name({"f", 2}, "fault", found, known); });
  };
  EXPECT_EQ(refused("first_kez"),
            "f:2: fault: found \"first_kez\", wanted one of 50 names; did you mean \"first_key\"?");
  EXPECT_THAT(refused("?"), ::testing::HasSubstr("wanted one of first_key, other_fault_0, "));
}

TEST(Yaml, MergesMapsAndReplacesTheRest) {
  YamlNode base = nsa::parse_yaml("a: {b: 1, c: [1, 2]}\nd: 4\n", "base");
  nsa::merge_yaml(base, nsa::parse_yaml("a: {c: [3], e: 5}\nd: {x: 1}\n", "over"));
  EXPECT_EQ(nsa::read_int(*nsa::find_yaml_path(base, "a.b"), ""), 1);
  EXPECT_EQ(nsa::read_ints(*nsa::find_yaml_path(base, "a.c"), ""), std::vector<int>{3});
  EXPECT_EQ(nsa::find_yaml_path(base, "a.c")->where.file, "over");
  EXPECT_EQ(nsa::find_yaml_path(base, "a.b")->where.file, "base");
  EXPECT_EQ(nsa::read_int(*nsa::find_yaml_path(base, "d.x"), ""), 1);
}

TEST(Yaml, SetsAPath) {
  YamlNode root = nsa::parse_yaml("a: {b: 1}\n", "f");
  const YamlNode value = nsa::relocated(nsa::parse_yaml("[1, {x: 2}]", "g"), {"--set"});
  nsa::set_yaml_path(root, "a.c.d", value);
  EXPECT_EQ(nsa::find_yaml_path(root, "a.c.d")->items[1].find("x")->where.text(), "--set");
  for (const char* bad : {"", ".", "a.", ".a", "a..b", "a.b.c"}) {
    EXPECT_THAT(error_of([&] { nsa::set_yaml_path(root, bad, value); }), StartsWith("--set: "))
        << bad;
  }
}

// Whatever the bytes: a tree or an nsa::Error that names the file, nothing else.
TEST(Yaml, AnyBytesGiveATreeOrAClearError) {
  const std::string pieces[] = {
      "a",  ": ",          "\n",  "  ",       "- ",  "[",   "]",   "{",  "}",     ",",
      "\"", "'",           "&x ", "*x",       "!t ", "|\n", ">\n", "#",  "---\n", "...\n",
      "? ", "%YAML 1.2\n", "\t",  "\xc3\xa9", "1",   "~",   "<<",  "\\", "@",     "`"};
  std::mt19937 random(3);
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (std::size_t n = random() % 24; n > 0; --n) text += pieces[random() % std::size(pieces)];
    const std::string message = refusal(text);
    EXPECT_TRUE(message == "no error" || message.starts_with("f.yaml")) << text << "\n" << message;
  }
}

}  // namespace
