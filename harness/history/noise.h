// What a timing tells in spite of its noise. Times go in as logarithms, so that a difference of 0.05 is 5 %.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace harness::history {

// Linear between the order statistics, as R's type 7 has it. Of timings the lower quartile is taken: a neighbour on the machine
// makes launches slower and never faster, so up to three of eight disturbed ones hardly move it. NaN of nothing.
[[nodiscard]] double quantile(std::vector<double> values, double share);

// What is known of a cell's noise from its reference nights.
struct Noise {
  int nights = 0;        // whose mean is the level that a night is compared with
  int freedom = 0;       // degrees of freedom of `deviation`
  double deviation = 0;  // of one stage's value, over nights
  double shared =
      0;  // the share of its variance, in [0, 1), that both stages of one night have in common
};

// The noise of nights without a change. `values`: one a night. `halves`: of each night the value of its even launches less that of
// its odd ones; their scatter is the launches' part of the noise, and what the nights scatter beyond that is the nights' own.
[[nodiscard]] Noise noise_of(std::span<const double> values, std::span<const double> halves);

// Of `values`, one a night, those that are no disturbed night: at most kDisturbed robust deviations from the median. The robust
// deviation is 1.4826 times the median absolute deviation, and at least `least` and that of the launches, which `halves` tell in
// the same way. A neighbour on the machine for one whole night would else hide every later change: the plain deviation grows with
// its square.
inline constexpr double kDisturbed = 8.0;
[[nodiscard]] std::vector<std::size_t> undisturbed(std::span<const double> values,
                                                   std::span<const double> halves,
                                                   double least);

// The probability that nothing changed, and yet both stages of a night lie at least `deviations` times `noise.deviation` away from
// the level, to the same side. The stages share the level, the estimated deviation and a part of the noise, so this is more than
// the square of one stage's: with g and e normal, and nu u^2 of the chi-squared distribution with nu degrees of freedom, it is
// 2 E[ P(e sqrt(1 - shared) >= deviations u - g sqrt(shared + 1 / nights) | g, u)^2 ], computed on a grid of g and u.
[[nodiscard]] double both_stages_beyond(double deviations, const Noise& noise);

// The deviations with which both_stages_beyond() is `level`.
[[nodiscard]] double critical_deviations(const Noise& noise, double level);

// The change that is found with a probability of 0.95 where both stages must lie `critical` deviations away.
[[nodiscard]] double smallest_visible(const Noise& noise, double critical);

// Benjamini and Hochberg (J. R. Statist. Soc. B 57, 1995): which of several p are discoveries, where a single one would have to be
// at most `level`. The expected share of false ones among them is at most p.size() * level.
[[nodiscard]] std::vector<bool> discoveries(std::span<const double> p, double level);

}  // namespace harness::history
