// The reader against files made byte by byte, and the writer against the reader.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nsa/base/error.h"
#include "nsa/base/safetensors_layout.h"
#include "tests/fakes/mutate.h"

namespace nsa {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// A file image: length, header, `data_bytes` bytes counting 0, 1, 2 ...
std::string image(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  text += header;
  for (std::size_t i = 0; i < data_bytes; ++i) {
    text += static_cast<char>(i);
  }
  return text;
}

SafetensorsIndex parse(const std::string& text) {
  return parse_safetensors(std::as_bytes(std::span(text)), "some.safetensors");
}

std::string refusal(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "not refused";
}

std::string refused_header(const std::string& header, std::size_t data_bytes) {
  return refusal(image(header, data_bytes));
}

std::string f32_entry(const std::string& shape, const std::string& offsets) {
  return R"({"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

template <typename T>
TensorView view_of(DType dtype, const std::vector<T>& values) {
  return {dtype,
          {static_cast<std::int64_t>(values.size())},
          std::as_bytes(std::span(values)),
          "a view"};
}

std::filesystem::path scratch_file(const std::string& name) {
  return std::filesystem::path(::testing::TempDir()) / (std::to_string(::getpid()) + "_" + name);
}

TEST(Safetensors, ReadsTensorsAndMetadata) {
  const std::string text =
      image(R"({"__metadata__":{"level":"x"},"a":)" + f32_entry("[2,1]", "[0,8]") + R"(,"e":)" +
                f32_entry("[0,3]", "[8,8]") + R"(,"s":)" + f32_entry("[]", "[8,12]") + "}  ",
            12);
  const SafetensorsIndex index = parse(text);
  EXPECT_THAT(index.metadata, ElementsAre(Pair("level", "x")));
  ASSERT_EQ(index.tensors.size(), 3u);
  EXPECT_THAT(index.tensors.at("a").shape, ElementsAre(2, 1));
  EXPECT_EQ(index.tensors.at("a").bytes[4], std::byte{4});
  EXPECT_TRUE(index.tensors.at("e").bytes.empty());
  EXPECT_TRUE(index.tensors.at("s").shape.empty());
  EXPECT_EQ(index.tensors.at("s").bytes.size(), 4u);
}

TEST(Safetensors, RefusesWhatIsNotAHeader) {
  EXPECT_THAT(refusal(""), AllOf(HasSubstr("some.safetensors"), HasSubstr("found 0 bytes")));
  EXPECT_THAT(refusal("1234567"), HasSubstr("found 7 bytes"));
  EXPECT_THAT(refusal(std::string(8, '\xff')), HasSubstr("header of 18446744073709551615 bytes"));
  EXPECT_THAT(refusal(image("{}", 0).substr(0, 9)),
              HasSubstr("header of 2 bytes, wanted at most 1"));
  EXPECT_THAT(refusal(std::string(8, '\0')), HasSubstr("starts with '{'"));
  EXPECT_THAT(refused_header(" {}", 0), HasSubstr("starts with '{'"));
  EXPECT_THAT(refused_header("{", 0), HasSubstr("wanted JSON"));
  EXPECT_THAT(refused_header("{} {}", 0), HasSubstr("wanted JSON"));
  EXPECT_THAT(refused_header("{\"\xff\":1}", 0), HasSubstr("wanted JSON"));
}

TEST(Safetensors, RefusesAHeaderBeyondTheLimit) {
  const std::size_t length = kMaxSafetensorsHeaderBytes + 8;
  EXPECT_THAT(refusal(image("{}" + std::string(length - 2, ' '), 0)),
              HasSubstr("wanted at most 16777216"));
}

TEST(Safetensors, RefusesNamesThatComeTwice) {
  const std::string entry = f32_entry("[1]", "[0,4]");
  EXPECT_THAT(refused_header(R"({"a":)" + entry + R"(,"a":)" + entry + "}", 4),
              HasSubstr("'a' comes twice"));
  EXPECT_THAT(refused_header(R"({"__metadata__":{"k":"1","k":"2"}})", 0),
              HasSubstr("'k' comes twice"));
  EXPECT_THAT(
      refused_header(R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4),
      HasSubstr("'dtype' comes twice"));
}

TEST(Safetensors, RefusesMalformedEntries) {
  EXPECT_THAT(refused_header(R"({"a":3})", 0), HasSubstr("tensor 'a': wanted exactly"));
  EXPECT_THAT(refused_header(R"({"a":{"dtype":"F32","shape":[1]}})", 4),
              HasSubstr("wanted exactly"));
  EXPECT_THAT(refused_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":0}})", 4),
              HasSubstr("wanted exactly"));
  EXPECT_THAT(refused_header(R"({"a":{"dtype":"F8","shape":[1],"data_offsets":[0,1]}})", 1),
              AllOf(HasSubstr("found \"F8\""), HasSubstr("BF16")));
  EXPECT_THAT(refused_header(R"({"a":{"dtype":1,"shape":[1],"data_offsets":[0,1]}})", 1),
              HasSubstr("dtype: found 1"));
  EXPECT_THAT(refused_header(R"({"__metadata__":[]})", 0), HasSubstr("object of strings"));
  EXPECT_THAT(refused_header(R"({"__metadata__":{"k":1}})", 0), HasSubstr("'k': wanted a string"));
}

TEST(Safetensors, RefusesBadNumbers) {
  for (const char* dim : {"-1", "1.0", "1e0", "\"1\"", "null", "9223372036854775808", "1e400"}) {
    EXPECT_NE(refused_header("{\"a\":" + f32_entry(std::string("[") + dim + "]", "[0,4]") + "}", 4),
              "not refused")
        << dim;
  }
  EXPECT_THAT(refused_header("{\"a\":" + f32_entry("1", "[0,4]") + "}", 4), HasSubstr("a list"));
  EXPECT_THAT(refused_header("{\"a\":" + f32_entry("[1]", "[0,4,8]") + "}", 4),
              HasSubstr("[begin,end]"));
  EXPECT_THAT(refused_header("{\"a\":" + f32_entry("[1]", "[4,0]") + "}", 4),
              HasSubstr("[begin,end]"));
}

TEST(Safetensors, RefusesShapesThatDoNotFitTheirBytes) {
  EXPECT_THAT(refused_header("{\"a\":" + f32_entry("[2]", "[0,4]") + "}", 4),
              HasSubstr("found 4 bytes, but F32[2] has 8"));
  // 2^61 * 2^3 bytes wraps to 0 in 64 bits.
  EXPECT_THAT(refused_header("{\"a\":" + f32_entry("[2305843009213693952,8]", "[0,0]") + "}", 0),
              HasSubstr("more than 63 bits"));
}

std::string two_tensors(const std::string& first, const std::string& second) {
  return "{\"a\":" + f32_entry("[1]", first) + ",\"b\":" + f32_entry("[1]", second) + "}";
}

TEST(Safetensors, RefusesGapsAndOverlaps) {
  EXPECT_EQ(refused_header(two_tensors("[4,8]", "[0,4]"), 8), "not refused");
  EXPECT_THAT(refused_header(two_tensors("[0,4]", "[8,12]"), 12),
              HasSubstr("tensor 'b': found data at byte 8"));
  EXPECT_THAT(refused_header(two_tensors("[0,4]", "[2,6]"), 8),
              HasSubstr("found data at byte 2, wanted 4"));
  EXPECT_THAT(refused_header(two_tensors("[0,4]", "[0,4]"), 8),
              HasSubstr("found data at byte 0, wanted 4"));
}

TEST(Safetensors, RefusesDataThatIsTooLongOrTooShort) {
  const std::string header = two_tensors("[0,4]", "[4,8]");
  EXPECT_THAT(refused_header(header, 9), HasSubstr("found 9 bytes of data"));
  EXPECT_THAT(refused_header(header, 7), HasSubstr("found 7 bytes of data"));
  EXPECT_THAT(refused_header("{}", 1), HasSubstr("found 1 bytes of data"));
}

std::string small_file() {
  return image(R"({"__metadata__":{"k":"v"},"a":)" + f32_entry("[2,1]", "[0,8]") + "}", 8);
}

TEST(Safetensors, RefusesEveryTruncation) {
  const std::string whole = small_file();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(refusal(whole.substr(0, length)), "not refused") << length;
  }
}

TEST(Safetensors, SurvivesEveryFlippedBit) {
  const std::string whole = small_file();
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    refusal(flipped);  // refused or not, never worse
  }
}

TEST(Safetensors, SurvivesTwentyThousandDamagedFiles) {
  const std::string whole = image(
      R"({"__metadata__":{"k":"v","l":"{}"},"a":)" + f32_entry("[2,1]", "[0,8]") + R"(,"b.c":)" +
          f32_entry("[]", "[8,12]") + R"(,"e":)" + f32_entry("[0,7]", "[12,12]") + "}  ",
      12);
  fakes::Mutator damaged(1, whole.size());
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::string message = refusal(damaged(whole));
    refused += message == "not refused" ? 0 : 1;
    ASSERT_LT(message.size(), 2000u) << i;
  }
  EXPECT_GT(refused, 10'000);
  EXPECT_LT(refused, 20'000);
}

// Each level of nesting would be a level of recursion for whoever prints it.
TEST(Safetensors, RefusesDeepNesting) {
  const std::string deep(1'000'000, '[');
  EXPECT_THAT(refused_header("{\"a\":" + f32_entry(deep + "1", "[0,4]") + "}", 4),
              HasSubstr("nested deeper than 3"));
  EXPECT_THAT(refused_header("{\"a\":" + deep, 0), HasSubstr("nested deeper than 3"));
}

TEST(Safetensors, SaysLittleOfLongNamesAndLists) {
  const std::string name(1'000'000, 'n');
  EXPECT_LT(refused_header("{\"" + name + "\":3}", 0).size(), 300u);
  EXPECT_LT(refused_header("{\"" + name + "\":{},\"" + name + "\":{}}", 0).size(), 300u);
  EXPECT_LT(
      refused_header("{\"a\":{\"dtype\":\"" + name + "\",\"shape\":[],\"data_offsets\":[0,0]}}", 0)
          .size(),
      300u);
  std::string ones = "[1";
  for (int i = 0; i < 100; ++i) ones += ",1";
  EXPECT_THAT(refused_header("{\"a\":" + f32_entry(ones + "]", "[0,4]") + "}", 4),
              HasSubstr("found a list of 101, wanted at most 64"));
}

TEST(Safetensors, ConvertsEveryDtype) {
  EXPECT_THAT(to_doubles(view_of<double>(DType::f64, {0.1, -2})), ElementsAre(0.1, -2));
  EXPECT_THAT(to_doubles(view_of<float>(DType::f32, {0.1f})), ElementsAre(double{0.1f}));
  EXPECT_THAT(to_doubles(view_of<std::uint16_t>(DType::bf16, {0x3f80, 0xc040})),
              ElementsAre(1, -3));
  EXPECT_THAT(to_doubles(view_of<std::int32_t>(DType::i32, {-7})), ElementsAre(-7));
  EXPECT_THAT(to_doubles(view_of<std::uint8_t>(DType::u8, {255})), ElementsAre(255));
  EXPECT_THAT(to_int64s(view_of<std::int64_t>(DType::i64, {INT64_MIN})), ElementsAre(INT64_MIN));
  EXPECT_THAT(to_int64s(view_of<std::int32_t>(DType::i32, {-7})), ElementsAre(-7));
  EXPECT_THAT(to_int64s(view_of<std::uint8_t>(DType::boolean, {0, 1})), ElementsAre(0, 1));
}

TEST(Safetensors, ConvertsHalfPrecisionAtItsEdges) {
  // One, the largest, the smallest normal and subnormal, and a negative third.
  const std::vector<double> values =
      to_doubles(view_of<std::uint16_t>(DType::f16, {0x3c00, 0x7bff, 0x0400, 0x0001, 0xb555}));
  EXPECT_THAT(values,
              ElementsAre(1, 65504, std::ldexp(1, -14), std::ldexp(1, -24), -0.333251953125));
  const std::vector<double> special =
      to_doubles(view_of<std::uint16_t>(DType::f16, {0x8000, 0xfc00, 0x7e00}));
  EXPECT_TRUE(special[0] == 0 && std::signbit(special[0]));
  EXPECT_EQ(special[1], -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(special[2]));
}

TEST(Safetensors, RefusesConversionsThatLose) {
  EXPECT_THROW(to_doubles(view_of<std::int64_t>(DType::i64, {1})), Error);
  EXPECT_THROW(to_int64s(view_of<double>(DType::f64, {1})), Error);
  EXPECT_THROW(to_int64s(view_of<std::uint8_t>(DType::boolean, {2})), Error);
  const std::vector<double> one{1};
  const TensorView short_view{DType::f64, {2}, std::as_bytes(std::span(one)), "short"};
  EXPECT_THROW(to_doubles(short_view), Error);
}

TEST(Safetensors, WritesWhatItReads) {
  const std::filesystem::path path = scratch_file("round_trip.safetensors");
  const std::vector<double> doubles{1.5, -0.0, std::nan("")};
  const std::vector<std::int64_t> whole{INT64_MAX};
  const std::vector<TensorToWrite> tensors{
      {"z.last", DType::f64, {3, 1}, std::as_bytes(std::span(doubles))},
      {"a \"quoted\" näme", DType::i64, {}, std::as_bytes(std::span(whole))},
      {"none", DType::bf16, {0, 5}, {}}};
  write_safetensors(path, tensors, {{"about", "a\nb"}});
  SafetensorsFile first(path);
  const SafetensorsFile file = std::move(first);
  EXPECT_THAT(file.metadata(), ElementsAre(Pair("about", "a\nb")));
  EXPECT_EQ(file.tensors().size(), 3u);
  const std::vector<double> read = to_doubles(file.at("z.last"));
  EXPECT_EQ(read[0], 1.5);
  EXPECT_TRUE(read[1] == 0 && std::signbit(read[1]));
  EXPECT_TRUE(std::isnan(read[2]));
  EXPECT_THAT(to_int64s(file.at("a \"quoted\" näme")), ElementsAre(INT64_MAX));
  EXPECT_THAT(file.at("none").shape, ElementsAre(0, 5));
  const auto data = reinterpret_cast<std::uintptr_t>(file.at("z.last").bytes.data());
  EXPECT_EQ(data % 8, 0u);  // a mapping starts at a page
  std::filesystem::remove(path);
}

TEST(Safetensors, ShowsOtherBytesAndLeavesTheFile) {
  const std::filesystem::path path = scratch_file("shown.safetensors");
  const std::vector<float> written{1, 2};
  const std::vector<float> other{3, 4};
  const TensorToWrite tensor{"a", DType::f32, {2}, std::as_bytes(std::span(written))};
  write_safetensors(path, std::vector{tensor});
  SafetensorsFile first(path);
  first.show("a", std::as_bytes(std::span(other)));
  const SafetensorsFile file = std::move(first);
  EXPECT_THAT(to_doubles(file.at("a")), ElementsAre(3, 4));
  EXPECT_THAT(to_doubles(SafetensorsFile(path).at("a")), ElementsAre(1, 2));
  std::filesystem::remove(path);
}

// A law: whoever lays a file out and fills it in any order writes the same file.
TEST(Safetensors, ALayoutFilledInAnyOrderIsTheWrittenFile) {
  const std::filesystem::path path = scratch_file("layout.safetensors");
  const std::vector<double> doubles{1.5, -2.5};
  const std::vector<std::uint8_t> bytes{7, 8, 9};
  const std::vector<TensorToWrite> tensors{
      {"b", DType::u8, {3}, std::as_bytes(std::span(bytes))},
      {"none", DType::bf16, {0, 5}, {}},
      {"a", DType::f64, {1, 2}, std::as_bytes(std::span(doubles))}};
  write_safetensors(path, tensors);
  std::vector<nsa::TensorPlan> plan;
  for (const TensorToWrite& tensor : tensors) {
    plan.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  const nsa::SafetensorsLayout layout = nsa::lay_out_safetensors(plan, {}, "f");
  std::string file(layout.bytes, '\0');
  for (std::size_t i = tensors.size(); i-- > 0;) {
    const auto from = tensors[i].bytes;
    std::transform(from.begin(),
                   from.end(),
                   file.begin() + static_cast<std::ptrdiff_t>(layout.offsets[i]),
                   [](std::byte byte) { return static_cast<char>(byte); });
  }
  file.replace(0, layout.head.size(), layout.head);
  std::ifstream stream(path, std::ios::binary);
  EXPECT_EQ(file, std::string(std::istreambuf_iterator<char>(stream), {}));
  EXPECT_EQ(layout.head.size() % 8, 0u);
  plan.push_back(plan.front());
  EXPECT_THROW((void)nsa::lay_out_safetensors(plan, {}, "f"), Error);
  plan.back() = {"c", DType::f64, {-1}};
  EXPECT_THROW((void)nsa::lay_out_safetensors(plan, {}, "f"), Error);
  std::filesystem::remove(path);
}

TEST(Safetensors, AFailedWriteLeavesTheOldFile) {
  const std::filesystem::path path = scratch_file("kept.safetensors");
  const std::vector<float> values{1, 2};
  const TensorToWrite good{"a", DType::f32, {2}, std::as_bytes(std::span(values))};
  const TensorToWrite misshapen{"b", DType::f32, {3}, std::as_bytes(std::span(values))};
  const TensorToWrite reserved{"__metadata__", DType::f32, {2}, std::as_bytes(std::span(values))};
  const TensorToWrite not_utf8{"\xff", DType::f32, {2}, std::as_bytes(std::span(values))};
  write_safetensors(path, std::vector{good});
  EXPECT_THROW(write_safetensors(path, std::vector{misshapen}), Error);
  EXPECT_THROW(write_safetensors(path, std::vector{good, good}), Error);
  EXPECT_THROW(write_safetensors(path, std::vector{reserved}), Error);
  EXPECT_THROW(write_safetensors(path, std::vector{not_utf8}), Error);
  EXPECT_TRUE(SafetensorsFile(path).contains("a"));
  std::filesystem::remove(path);
}

TEST(Safetensors, AWriteThatCannotBeRenamedLeavesNothing) {
  const std::filesystem::path folder = scratch_file("folder.safetensors");
  std::filesystem::create_directories(folder / "inside");
  EXPECT_THROW(write_safetensors(folder, {}), Error);  // a folder cannot be replaced by a file
  EXPECT_THROW(write_safetensors(folder / "absent" / "x", {}), Error);
  std::size_t left = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.parent_path())) {
    left += entry.path().string().rfind(folder.string() + ".tmp", 0) == 0 ? 1 : 0;
  }
  EXPECT_EQ(left, 0u);
  std::filesystem::remove_all(folder);
}

TEST(Safetensors, SaysWhichFileOrTensorIsMissing) {
  const std::filesystem::path path = scratch_file("named.safetensors");
  EXPECT_THROW(SafetensorsFile{path}, Error);
  EXPECT_THROW(SafetensorsFile{path.parent_path()}, Error);
  std::ofstream(path).close();
  EXPECT_THROW(SafetensorsFile{path}, Error);
  write_safetensors(path, {});
  try {
    (void)SafetensorsFile(path).at("q");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(path.string()), HasSubstr("no tensor 'q'")));
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace nsa
