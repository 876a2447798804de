#include <algorithm>

// The statistics against values that other programs publish.
#include "harness/history/noise.h"

namespace harness::history {
namespace {

TEST(Noise, QuantilesAreThoseOfNumpy) {  // numpy.quantile([9, 1, 4, 16], q)
  const std::vector<double> values = {9, 1, 4, 16};
  EXPECT_DOUBLE_EQ(quantile(values, 0.25), 3.25);
  EXPECT_DOUBLE_EQ(quantile(values, 0.5), 6.5);
  EXPECT_DOUBLE_EQ(quantile(values, 1.0), 16.0);
  EXPECT_TRUE(std::isnan(quantile({}, 0.5)));
}

TEST(Noise, ANightFarFromTheOthersWasDisturbed) {
  const double halves[] = {0.002, -0.004, 0.003, 0.001, -0.002, 0.003, 0.004};
  const double values[] = {1.001, 0.999, 1.47, 1.002, 0.998, 1.0, 1.003};
  const std::size_t kept[] = {0, 1, 3, 4, 5, 6};
  EXPECT_TRUE(std::ranges::equal(undisturbed(values, halves, 1e-4), kept));
  // Launches that scatter explain nights that do.
  const double wide[] = {0.2, -0.3, 0.25, 0.3, -0.2, 0.3, 0.2};
  EXPECT_EQ(undisturbed(values, wide, 1e-4).size(), 7U);
  const double equal[] = {2.0, 2.0, 2.0 + 1e-12};
  EXPECT_EQ(undisturbed(equal, {}, 1e-4).size(), 3U) << "a coarse clock";
}

TEST(Noise, NightsThatScatterMoreThanTheirLaunchesShareTheRest) {
  const std::vector<double> values = {0.0, 2.0, 4.0};   // variance 4
  const std::vector<double> halves = {2.0, -2.0, 2.0};  // launches alone: variance 1
  const Noise noise = noise_of(values, halves);
  EXPECT_EQ(noise.nights, 3);
  EXPECT_EQ(noise.freedom, 2);
  EXPECT_DOUBLE_EQ(noise.deviation, 2.0);
  EXPECT_DOUBLE_EQ(noise.shared, 0.75);
  // Nights that agree by chance: the launches' part is the least that is believed.
  EXPECT_DOUBLE_EQ(noise_of(values, std::vector<double>{6.0, 6.0, -6.0}).deviation, 3.0);
}

TEST(Noise, TwoStagesWithACertainReferenceAreTwiceTheSquareOfATail) {
  const Noise noise{1'000'000, 1'000'000, 1.0, 0.0};
  // scipy.stats.norm.sf(2.5) = 0.006209665325776132
  EXPECT_NEAR(both_stages_beyond(2.5, noise) / (2.0 * 0.006209665325776132 * 0.006209665325776132),
              1.0,
              0.005);
}

// Where everything is shared, two stages are one: Student's t with nu degrees of freedom, widened by the level's uncertainty.
TEST(Noise, StagesThatShareEverythingAreOneStudentT) {
  const Noise noise{10, 9, 1.0, 0.999};
  const double t = 3.0;
  // 2 * scipy.stats.t.sf(3.0, 9) = 0.014956
  EXPECT_NEAR(both_stages_beyond(t * std::sqrt(1.0 + 0.1), noise), 0.014956, 0.0008);
}

TEST(Noise, MoreNightsAndLessSharingNeedLessEvidence) {
  const auto needed = [](int nights, double shared) {
    return critical_deviations({nights, nights - 1, 1.0, shared}, 1e-4);
  };
  EXPECT_GT(needed(6, 0.0), needed(12, 0.0));
  EXPECT_GT(needed(12, 0.0), needed(30, 0.0));
  EXPECT_GT(needed(30, 0.5), needed(30, 0.0));
  EXPECT_NEAR(both_stages_beyond(needed(12, 0.3), {12, 11, 1.0, 0.3}), 1e-4, 1e-7);
}

TEST(
    Noise,
    DiscoveriesAreThoseOfBenjaminiAndHochberg) {  // statsmodels' multipletests(p, 0.05, "fdr_bh"), level 0.05 / 5
  const std::vector<double> p = {0.03, 0.001, 0.5, 0.029, 0.9};
  EXPECT_EQ(discoveries(p, 0.01), (std::vector<bool>{true, true, false, true, false}));
  EXPECT_EQ(discoveries(std::vector<double>{0.011, 0.019}, 0.01), (std::vector<bool>{true, true}));
  EXPECT_EQ(discoveries(std::vector<double>{0.021, 0.5}, 0.01), (std::vector<bool>{false, false}));
  EXPECT_TRUE(discoveries({}, 0.01).empty());
}

}  // namespace
}  // namespace harness::history
