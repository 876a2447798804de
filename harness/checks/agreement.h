// "Agreement": values that must be equal, by who holds them: ranks, a rank and its twin, two levels of observation, two lives.
// What absent, unread and not finite mean is decided here, once.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "harness/checks/result.h"

namespace harness::checks {

struct Held {
  enum class State { there, absent, unread };

  State state = State::unread;
  std::string bits;     // compared bit by bit
  double number = 0.0;  // compared instead if `bits` is empty

  // Of a hash that the record should have. An empty one was not read.
  [[nodiscard]] static Held hash(const std::string& bits) {
    return {bits.empty() ? State::unread : State::there, bits};
  }
  [[nodiscard]] static Held of(double number) { return {State::there, "", number}; }
  // By right there is nothing.
  [[nodiscard]] static Held nothing() { return {State::absent, ""}; }
  [[nodiscard]] bool is_finite() const { return !bits.empty() || std::isfinite(number); }
};

enum class Said {
  equal,
  differ,
  alone,      // one holder: nothing was compared
  absent,     // by right no holder has a value
  unread,     // some value is not on record
  not_finite  // no holder has a finite number: nothing was compared
};

template <typename Holder>
struct Agreement {
  Said said = Said::unread;
  std::vector<Holder> odd;     // that are not with the strict majority; empty if there is none
  std::vector<Holder> unread;  // whose value is not on record

  [[nodiscard]] bool compared() const { return said == Said::equal || said == Said::differ; }
};

// `relative`: how far numbers may be apart, relative to the value of the last holder. A number that is not finite equals none.
// With `others`, values that were read are compared although some were not.
enum class Unread { compares_nothing, compares_others };
template <typename Holder>
[[nodiscard]] Agreement<Holder> agree(const std::map<Holder, Held>& values,
                                      double relative = 0.0,
                                      Unread unread = Unread::compares_nothing) {
  Agreement<Holder> result;
  std::map<Holder, Held> there;
  bool any = false;
  bool any_finite = false;
  for (const auto& [holder, value] : values) {
    if (value.state == Held::State::unread) {
      result.unread.push_back(holder);
      continue;
    }
    there.emplace(holder, value);
    any = any || value.state == Held::State::there;
    any_finite = any_finite || (value.state == Held::State::there && value.is_finite());
  }
  const bool nothing = there.empty() || unread == Unread::compares_nothing;
  if (!result.unread.empty() && nothing) return result;
  const auto say = [&](Said said) {
    result.said = said;
    return result;
  };
  if (!any) return say(Said::absent);
  if (there.size() < 2) return say(Said::alone);
  if (!any_finite) return say(Said::not_finite);
  const Held& last = there.rbegin()->second;
  const bool numbers = std::all_of(there.begin(), there.end(), [](const auto& entry) {
    return entry.second.state == Held::State::there && entry.second.bits.empty();
  });
  if (numbers) {
    const bool same = std::all_of(there.begin(), there.end(), [&](const auto& entry) {
      const double off = std::abs(entry.second.number - last.number);
      return off <= relative * std::abs(last.number);
    });
    return say(same ? Said::equal : Said::differ);
  }
  using Key = std::tuple<Held::State, std::string, double>;
  std::map<Holder, Key> keys;
  for (const auto& [holder, value] : there) {
    keys[holder] = {value.state, value.bits, value.number};
  }
  if (all_equal(keys)) return say(Said::equal);
  result.odd = minority(keys);
  return say(Said::differ);
}

// A value and the one that it should be.
[[nodiscard]] inline Said agree(const Held& found, const Held& wanted, double relative = 0.0) {
  return agree(std::map<int, Held>{{0, found}, {1, wanted}}, relative).said;
}

// Of parameters or gradients in pieces: which of them are held by several ranks, so that they can be compared.
class Pieces {
 public:
  // A piece "" is the whole.
  void add(const std::string& param, const std::string& piece, std::size_t holders) {
    if (piece.empty()) return;
    params_.insert(param);
    ++pieces_;
    compared_ += holders > 1 ? 1 : 0;
  }
  [[nodiscard]] bool empty() const { return pieces_ == 0; }
  // "3 gradients in pieces, each of one rank, so that none is compared with another; 2 whole gradients the same on ranks 0-1"
  [[nodiscard]] std::string text(const std::string& noun,
                                 std::size_t in_all,
                                 const std::vector<int>& ranks) const {
    const std::string compared =
        compared_ == 0         ? "each of one rank, so that none is compared with another"
        : compared_ == pieces_ ? "each the same on the ranks that hold it"
                               : std::to_string(compared_) + " of " + std::to_string(pieces_) +
                                     " the same on the ranks that hold it, the others of one rank";
    const auto whole = static_cast<std::int64_t>(in_all - params_.size());
    return counted(static_cast<std::int64_t>(params_.size()), noun) + " in pieces, " + compared +
           (whole == 0 ? ""
                       : "; " + counted(whole, "whole " + noun) + " the same on " +
                             ranks_text(ranks));
  }

 private:
  std::set<std::string> params_;
  std::size_t pieces_ = 0;    // of all steps
  std::size_t compared_ = 0;  // of these: held by more than one rank
};

}  // namespace harness::checks
