// What is packed comes back, and nothing else passes for it.
#include "harness/evidence/packed.h"

#include <random>

#include <gtest/gtest.h>

#include "nsa/base/error.h"

namespace harness {
namespace {

constexpr std::size_t kPlenty = std::size_t{1} << 30;

TEST(Packed, ComesBack) {
  std::mt19937 random(3);
  for (const std::size_t bytes : {0U, 1U, 1000U, 131'072U, 1'000'000U}) {
    std::string noise(bytes, '\0');
    for (char& letter : noise) letter = static_cast<char>(random());
    EXPECT_EQ(unpack(pack(noise), kPlenty), noise);
    const std::string dull(bytes, 'x');
    EXPECT_EQ(unpack(pack(dull), kPlenty), dull);
  }
}

TEST(Packed, IsSmallWhereTheTextRepeats) {
  EXPECT_LT(pack(std::string(1'000'000, 'x')).size(), 1000U);
}

TEST(Packed, RefusesMoreThanItMayHold) {
  const std::string bomb = pack(std::string(100'000'000, 'x'));
  EXPECT_LT(bomb.size(), 100'000U);
  EXPECT_THROW((void)unpack(bomb, 1'000'000), nsa::Error);
}

TEST(Packed, RefusesWhatIsNotItsOwn) {
  const std::string packed = pack("one two three, one two three");
  for (std::size_t bytes = 0; bytes < packed.size(); ++bytes) {
    EXPECT_THROW((void)unpack(packed.substr(0, bytes), kPlenty), nsa::Error) << bytes;
  }
  EXPECT_THROW((void)unpack("garbage", kPlenty), nsa::Error);
  EXPECT_THROW((void)unpack(packed + "garbage", kPlenty), nsa::Error);
  for (std::size_t at = 0; at < packed.size(); ++at) {
    std::string damaged = packed;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    try {
      EXPECT_EQ(unpack(damaged, kPlenty), "one two three, one two three") << at;
    } catch (const nsa::Error&) {  // seen; a bit that no reader looks at changes nothing
    }
  }
}

}  // namespace
}  // namespace harness
