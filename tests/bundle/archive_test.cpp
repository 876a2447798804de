// An archive comes back as it was written, and a stranger's cannot leave it, whatever its headers say.
#include "harness/bundle/archive.h"

#include <array>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/evidence/packed.h"
#include "nsa/base/error.h"
#include "tests/fakes/mutate.h"

namespace harness {
namespace {

using testing::HasSubstr;

constexpr ArchiveLimits kSmallLimits = {std::size_t{1} << 16, 3};

const std::vector<Member> kTwoMembers = {{"case.json", "{}\n"},
                                         {"texts/01ab.txt", std::string(600, 'x')}};

std::string unpacked() {
  return unpack(write_archive(kTwoMembers), 1 << 16);
}

// Its headers' sums are made to fit again.
std::string with_sums(std::string archive) {
  for (const std::size_t at : {std::size_t{0}, std::size_t{1024}}) {
    archive.replace(at + 148, 8, 8, ' ');
    unsigned sum = 0;
    for (std::size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(archive[at + i]);
    std::array<char, 8> digits{};
    std::snprintf(digits.data(), digits.size(), "%06o", sum);
    archive.replace(at + 148, 7, digits.data(), 7);
  }
  return archive;
}

std::string refusal_of(const std::string& packed, const ArchiveLimits& limits = kSmallLimits) {
  try {
    (void)read_archive(packed, limits, "f.tar.zst");
  } catch (const nsa::Error& error) {
    return error.what();
  }
  return "";
}

TEST(Archive, ComesBackAsItWasWritten) {
  EXPECT_EQ(read_archive(write_archive(kTwoMembers), kSmallLimits, "f"), kTwoMembers);
  EXPECT_EQ(write_archive(kTwoMembers), write_archive(kTwoMembers));
  EXPECT_TRUE(read_archive(write_archive({}), kSmallLimits, "f").empty());
}

struct Hostile {
  const char* what;
  std::function<void(std::string& archive)> change;
  const char* refused;
};

TEST(Archive, AStrangersHeadersAreRefused) {
  const auto named = [](const char* name) {
    return [name](std::string& archive) {
      archive.replace(0, 10, std::string(name).append(10, '\0'), 0, 10);
    };
  };
  const std::vector<Hostile> all = {
      {"above", named("../x"), "found a member of the name \"../x\""},
      {"absolute", named("/etc/x"), "found a member of the name \"/etc/x\""},
      {"here", named("./x"), "found a member of the name"},
      {"within", named("a/../x"), "found a member of the name"},
      {"nothing", named(""), "found a member of the name"},
      {"a control", named("a\nb"), "found a member of the name"},
      {"prefix", [](std::string& archive) { archive[345] = 'p'; }, "found a member of the name"},
      {"symbolic link", [](std::string& archive) { archive[156] = '2'; }, "as a link"},
      {"hard link", [](std::string& archive) { archive[156] = '1'; }, "as a link"},
      {"folder", [](std::string& archive) { archive[156] = '5'; }, "as a link, a folder"},
      {"link name", [](std::string& archive) { archive[157] = 'x'; }, "as a link"},
      {"length",
       [](std::string& archive) { archive.replace(124, 11, "77777777777"); },
       "longer than the file"},
      {"no number", [](std::string& archive) { archive[130] = '9'; }, "longer than the file"},
      {"no archive", [](std::string& archive) { archive[257] = 'x'; }, "is no ustar archive"},
      {"twice",
       [](std::string& archive) { archive.replace(1024, 100, archive.substr(0, 100)); },
       "twice"}};
  for (const Hostile& hostile : all) {
    std::string archive = unpacked();
    hostile.change(archive);
    EXPECT_THAT(refusal_of(pack(with_sums(archive))), HasSubstr(hostile.refused)) << hostile.what;
  }
}

TEST(Archive, WhatIsDamagedIsSaidToBe) {
  std::string archive = unpacked();
  EXPECT_THAT(refusal_of(pack(archive.substr(0, archive.size() - 512))),
              HasSubstr("ends too early"));
  archive[3] = 'X';
  EXPECT_THAT(refusal_of(pack(archive)), HasSubstr("a header is not what its sum says"));
  std::string packed = write_archive(kTwoMembers);
  packed[packed.size() / 2] = static_cast<char>(packed[packed.size() / 2] ^ 1);
  EXPECT_THAT(refusal_of(packed), HasSubstr("f.tar.zst: "));
  EXPECT_THAT(refusal_of("no archive"), HasSubstr("damaged"));
}

// A few bytes can unpack to any number of them.
TEST(Archive, NothingIsKeptBeyondTheLimits) {
  const std::string bomb = pack(std::string(std::size_t{1} << 24, '\0'));
  EXPECT_LT(bomb.size(), 10'000U);
  EXPECT_THAT(refusal_of(bomb), HasSubstr("longer than it may be"));
  EXPECT_THAT(refusal_of(write_archive(kTwoMembers), {1 << 16, 1}),
              HasSubstr("more than 1 members"));
}

TEST(Archive, AnyDamageIsRefusedOrHarmless) {
  fakes::Mutator mutate(7, 1536);
  const std::string archive = unpacked();
  for (int i = 0; i < 5'000; ++i) {
    const std::string packed = pack(mutate(archive));
    try {
      for (const Member& member : read_archive(packed, kSmallLimits, "f")) {
        EXPECT_EQ(member.name.find(".."), std::string::npos);
        EXPECT_NE(member.name.front(), '/');
      }
    } catch (const nsa::Error& error) {
      EXPECT_LT(std::string(error.what()).size(), 1'000U);
    }
  }
}

}  // namespace
}  // namespace harness
