// What nvidia-smi and the kernel's log tell of cards, as they print it: an H100 with driver 580, and lines of the driver's Xids.
#include "harness/cli/machine/card_health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/evidence/hosts.h"

namespace {

using harness::Fact;
using harness::cli::card_facts;
using harness::cli::CardHealth;
using harness::cli::read_card_health;
using harness::cli::Xid;
using harness::cli::xid_in;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::string kSound =
    "0, 00000000:17:00.0, NVIDIA H100 80GB HBM3, 0, No, Not Active, Not Active\n"
    "1, 00000000:CA:00.0, NVIDIA H100 80GB HBM3, 2, No, Not Active, Not Active\n";
const std::string kFell =
    "NVRM: Xid (PCI:0000:17:00): 79, pid='<unknown>', name=<unknown>, GPU has "
    "fallen off the bus.";

std::vector<std::string> told(const std::string& after,
                              const std::vector<std::string>& log = {},
                              const std::string& trouble = "") {
  std::vector<std::string> values;
  for (const Fact& fact :
       card_facts(read_card_health(kSound), read_card_health(after), log, trouble)) {
    EXPECT_EQ(fact.name, harness::kCardFact);
    values.push_back(fact.value);
  }
  return values;
}

TEST(CardHealth, TheLinesOfNvidiaSmiAreRead) {
  const auto cards = read_card_health(kSound);
  ASSERT_EQ(cards.size(), 2u);
  EXPECT_EQ(cards[1].name, "card 1 (NVIDIA H100 80GB HBM3)");
  EXPECT_EQ(cards[1].address, "0000:ca:00");
  EXPECT_EQ(cards[1].uncorrected, 2);
  EXPECT_FALSE(cards[1].remap_pending || cards[1].slowed || cards[1].hot);
  const auto old = read_card_health("0, 00000000:01:00.0, T4, [N/A], [N/A], Active, Active\n");
  ASSERT_EQ(old.size(), 1u);
  EXPECT_EQ(old[0].uncorrected, std::nullopt);
  EXPECT_TRUE(!old[0].remap_pending && old[0].slowed && old[0].hot);
  EXPECT_THAT(read_card_health("Unable to determine the device handle for GPU0: 0000:17:00.0: "
                               "Unknown Error\n\n0, 1, 2\n,,,,,,\n"),
              IsEmpty());
}

TEST(CardHealth, AnXidIsReadFromALineOfTheKernel) {
  const auto xid = xid_in("3,1204,98765432,-;" + kFell + "\n SUBSYSTEM=pci\n");
  ASSERT_TRUE(xid.has_value());
  EXPECT_EQ(xid->address, "0000:17:00");
  EXPECT_EQ(xid->number, 79);
  EXPECT_EQ(xid->text, "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.");
  EXPECT_EQ(xid_in("NVRM: Xid (PCI:0000:17:00): 62")->number, 62);
  for (const char* line : {"",
                           "NVRM: Xid (PCI:0000:17:00",
                           "NVRM: Xid (PCI:0000:17:00): many",
                           "NVRM: Xid (PCI:0000:17:00): ",
                           "NVRM: GPU 0000:17:00.0: RmInitAdapter failed!"}) {
    EXPECT_FALSE(xid_in(line)) << line;
  }
}

TEST(CardHealth, OnlyWhatCameSinceTheStartIsTold) {
  EXPECT_THAT(told(kSound), IsEmpty());
  EXPECT_THAT(told(kSound, {"5,1,2,-;usb 1-1: new device", ""}), IsEmpty());
  EXPECT_THAT(
      told("0, 00000000:17:00.0, NVIDIA H100 80GB HBM3, 1, Yes, Active, Not Active\n"
           "1, 00000000:CA:00.0, NVIDIA H100 80GB HBM3, 5, No, Active, Active\n"),
      ElementsAre(
          "card 0 (NVIDIA H100 80GB HBM3): 1 uncorrected ECC error of its memory since the "
          "start; rows of its memory are to be remapped: reset it; its hardware slows it down",
          "card 1 (NVIDIA H100 80GB HBM3): 3 uncorrected ECC errors of its memory since the "
          "start; its hardware slows it down for heat"));
}

TEST(CardHealth, XidsAreToldOfTheirCardEachNumberOnce) {
  const std::string fault =
      "4,7,8,-;NVRM: Xid (PCI:0000:ca:00): 31, pid=7, name=python3, MMU Fault";
  EXPECT_THAT(
      told(kSound, {fault, fault, fault, "4,7,8,-;NVRM: Xid (PCI:0000:ca:00): 45"}),
      ElementsAre("card 1 (NVIDIA H100 80GB HBM3): Xid 31 (pid=7, name=python3, MMU Fault), 3 "
                  "times, Xid 45"));
  EXPECT_THAT(told(kSound, {"4,7,8,-;NVRM: Xid (PCI:0001:ca:00): 45"}), IsEmpty());
}

TEST(CardHealth, ACardThatIsGoneAndADriverThatAnswersNoMoreAreTold) {
  EXPECT_THAT(told("1, 00000000:CA:00.0, NVIDIA H100 80GB HBM3, 2, No, Not Active, Not Active\n"),
              ElementsAre("card 0 (NVIDIA H100 80GB HBM3): nvidia-smi does not list it any more"));
  EXPECT_THAT(
      told("", {"3,1,2,-;" + kFell}, "did not answer in two seconds"),
      ElementsAre("card 0 (NVIDIA H100 80GB HBM3): Xid 79 (pid='<unknown>', name=<unknown>, "
                  "GPU has fallen off the bus.)",
                  "nvidia-smi: it did not answer in two seconds, and had answered at the start"));
}

}  // namespace
