// The keys of `fault`, `known` and `expect`: what is planted, what may fail, and what must be said of it.
#pragma once

#include <array>
#include <tuple>

#include "harness/scenario/scenario.h"
#include "nsa/base/fields.h"

namespace harness {

using nsa::ByHand;
using nsa::Field;
using nsa::Part;

// GRAD.MISSING, or several joined by " or ".
[[nodiscard]] bool is_code(const std::string& text);
[[nodiscard]] bool is_date(const std::string& text);  // YYYY-MM-DD
[[nodiscard]] bool is_not_empty(const std::string& text);

inline constexpr nsa::Accepts kCode =
    nsa::text_that(is_code, "a code like GRAD.MISSING, or several joined by \" or \"");

inline constexpr auto kFaultFields = [] {
  using F = FaultRequest;
  return std::tuple{
      Field{"name", &F::name, "which", {}, {.type = "name", .required = true}},
      Field{"layers",
            &F::layers,
            "layers it is put into, counted from 0",
            {},
            {.initial = "drawn", .sparse = true}},
      ByHand{"rank", "integer or all", "the fault's", "rank it is put into, counted from 0"},
      Field{"step", &F::step, "optimiser step from which it is there"},
      Field{"strength",
            &F::strength,
            "share of rows in which the wrong law holds, above 0 to 1",
            nsa::above(0, 1)},
      Field{"seed", &F::seed, "of what is drawn"},
      Field{"form",
            &F::form,
            "of faults that have several",
            {},
            {.type = "name", .initial = "the fault's", .sparse = true}}};
}();

inline constexpr std::array kBadOutcomes = {"FAIL", "HANG", "SLOW", "CRASH", "OOM"};

inline constexpr auto kKnownFields = [] {
  using K = KnownFailure;
  return std::tuple{
      ByHand{
          "when", "map", "required", "the point; all of its values hold, the first entry counts"},
      ByHand{"when.PATH", "value or list", "", "what the scenario says there; a list: any of them"},
      Field{"outcome",
            &K::outcome,
            "FAIL, HANG, SLOW, CRASH or OOM",
            nsa::one_of(kBadOutcomes),
            {.required = true}},
      Field{"code",
            &K::code,
            "of the first finding; \"A or B\" accepts both",
            kCode,
            {.type = "code", .initial = "any", .sparse = true}},
      Field{"because",
            &K::because,
            "why it cannot pass",
            nsa::text_that(is_not_empty, "the reason"),
            {.required = true}},
      Field{"until",
            &K::until,
            "YYYY-MM-DD: from then on it fails like any other",
            nsa::text_that(is_date, "a date YYYY-MM-DD"),
            {.type = "date", .required = true}}};
}();

// Also the JSON of every finding (site.cpp).
inline constexpr auto kSiteFields = [] {
  using S = Site;
  constexpr nsa::Shape kNumbers = {.initial = "any", .sparse = true};
  constexpr nsa::Shape kName = {.type = "name", .initial = "any", .sparse = true};
  return std::tuple{
      Field{"layers", &S::layers, "counted from 0", {}, kNumbers},
      Field{"branch", &S::branch, "cmp, sel or win", {}, kName},
      Field{"param", &S::param, "without blocks.N., attn. and .weight: W_K_cmp", {}, kName},
      Field{"op", &S::op, "a seam, or optimizer, softmax, ...", {}, kName},
      Field{"heads", &S::heads, "counted from 0", {}, kNumbers},
      Field{"rows", &S::rows, "query positions, counted from 0", {}, kNumbers},
      Field{"ranks", &S::ranks, "counted from 0", {}, kNumbers},
      Field{"step", &S::step, "optimiser step, counted from 1", {}, kNumbers},
      Field{"bucket", &S::bucket, "of the gradient reducer", {}, kNumbers},
      Field{"sequence", &S::sequence, "of the collective in its group", {}, kNumbers},
      Field{"phase", &S::phase, "init, forward, backward, ...", {}, kName},
      ByHand{"detail", "map", "any", "what else the finding says, by name"}};
}();

inline constexpr auto kExpectFields = [] {
  using E = Expectation;
  return std::tuple{Field{"outcome",
                          &E::outcome,
                          "PASS, FAIL, HANG, SLOW, CRASH, OOM, ...",
                          {},
                          {.initial = "any", .sparse = true}},
                    Field{"code",
                          &E::code,
                          "of the initiating finding; \"A or B\" accepts both",
                          kCode,
                          {.type = "code", .initial = "any", .sparse = true}},
                    Part{"site",
                         &E::site,
                         kSiteFields,
                         "where; only what is given here is compared",
                         {.initial = "any"}}};
}();

}  // namespace harness
