#include "oracles/laws/backward_laws.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace oracles {
namespace {

// The keys whose gradients one query adds to; a list twice adds twice.
using KeyLists = std::function<std::vector<KeyList>(std::int64_t group, std::int64_t row)>;

// Right where nothing else is said.
struct RowTerms {
  double deltas = 1;  // how often the softmax's mean, sum p dp, is subtracted
  double factor = 1;  // of the gradients of the logits
  KeyLists lists = {};
};

// log sum exp of every head's logits.
std::vector<double> log_sums(const std::vector<double>& s_hK, std::int64_t heads) {
  std::vector<double> sums;
  const auto count = static_cast<std::int64_t>(s_hK.size()) / heads;
  for (auto row = s_hK.begin(); count > 0 && row != s_hK.end(); row += count) {
    const double largest = *std::max_element(row, row + count);
    double sum = 0;
    for (auto s = row; s != row + count; ++s) {
      sum += std::exp(*s - largest);
    }
    sums.push_back(largest + std::log(sum));
  }
  return sums;
}

// One query's step under a law.
class WrongRow {
 public:
  WrongRow(const Stages& forward, Branch branch, const RowTerms& terms)
      : forward_(forward),
        branch_(branch),
        terms_(terms),
        banks_(forward.banks(branch)),
        q_(forward.input(Stage::q)) {
    if (branch == Branch::sel) {
      (void)forward.attended();  // computed before threads ask for it
    }
  }

  void operator()(std::int64_t group,
                  std::int64_t row,
                  const View& do_hV,
                  const AttendGradients& gradients,
                  AttendWork& work) const {
    const KeyBank& bank = banks_[group];
    const View q_hD = head_rows(q_, group, row);
    const KeyList keys = visible_keys(forward_.query(branch_, group, row));
    if (keys.empty()) {
      return;
    }
    scaled_logits(bank, keys, q_hD, work.p_hK);
    const std::vector<double> sums = log_sums(work.p_hK, q_hD.rows);
    std::vector<double> deltas(static_cast<std::size_t>(q_hD.rows), 0.0);
    value_products(bank, keys, do_hV, work.ds_hK);
    to_probabilities(sums, work.p_hK);
    for_each(work.p_hK, q_hD.rows, [&](std::size_t head, std::size_t i) {
      deltas[head] += work.p_hK[i] * work.ds_hK[i];
    });
    to_logit_gradients(deltas, bank.d_k(), work);
    add_query_gradients(bank, keys, work.ds_hK, gradients.dq_hD);
    for (const KeyList& list :
         terms_.lists ? terms_.lists(group, row) : std::vector<KeyList>{keys}) {
      scaled_logits(bank, list, q_hD, work.p_hK);
      value_products(bank, list, do_hV, work.ds_hK);
      to_probabilities(sums, work.p_hK);
      to_logit_gradients(deltas, bank.d_k(), work);
      add_value_gradients(bank, list, work.p_hK, do_hV, gradients.dv_NV);
      add_key_gradients(bank, list, work.ds_hK, q_hD, gradients.dk_ND);
    }
  }

 private:
  // visit(head, place)
  template <typename Visit>
  static void for_each(const std::vector<double>& values_hK, std::int64_t heads, Visit visit) {
    const std::size_t count = values_hK.size() / static_cast<std::size_t>(heads);
    for (std::size_t i = 0; i < values_hK.size(); ++i) {
      visit(i / count, i);
    }
  }

  static void to_probabilities(const std::vector<double>& sums, std::vector<double>& s_hK) {
    for_each(s_hK, static_cast<std::int64_t>(sums.size()), [&](std::size_t head, std::size_t i) {
      s_hK[i] = std::exp(s_hK[i] - sums[head]);
    });
  }

  void to_logit_gradients(const std::vector<double>& deltas,
                          std::int64_t d_k,
                          AttendWork& work) const {
    const double factor = terms_.factor / std::sqrt(static_cast<double>(d_k));
    for_each(
        work.p_hK, static_cast<std::int64_t>(deltas.size()), [&](std::size_t h, std::size_t i) {
          work.ds_hK[i] = factor * work.p_hK[i] * (work.ds_hK[i] - terms_.deltas * deltas[h]);
        });
  }

  const Stages& forward_;
  Branch branch_;
  RowTerms terms_;
  const std::vector<KeyBank>& banks_;
  const Tensor& q_;
};

BranchGradients through_law(const Backward& backward, Branch branch, const RowTerms& terms) {
  return backward.through(
      branch, backward.of_output(branch), WrongRow(backward.forward(), branch, terms));
}

// ---- the lists of blocks, of all queries --------------------------------------------------------

std::span<const std::int64_t> blocks_of(const Stages& in, std::int64_t group, std::int64_t row) {
  return in.query(Branch::sel, group, row).blocks;
}

bool lists_block(std::span<const std::int64_t> blocks, std::int64_t block) {
  return std::find(blocks.begin(), blocks.end(), block) != blocks.end();
}

// For the query at t the keys u whose own query lists the block of t: query to block, where block
// to query is wanted.
KeyLists transposed_lists(const Stages& in, bool causal) {
  return [&in, causal](std::int64_t group, std::int64_t row) {
    const std::int64_t own_block = row / in.config().l_sel;
    KeyList keys;
    for (std::int64_t u = 0; u < (causal ? row + 1 : in.sizes().length); ++u) {
      if (lists_block(blocks_of(in, group, u), own_block)) {
        append_range(keys, u, u + 1);
      }
    }
    return std::vector<KeyList>{keys};
  };
}

// Per group and block, how many queries list it, and which is the first and the last.
struct Pickers {
  std::int64_t count = 0;
  std::int64_t first = -1;
  std::int64_t last = -1;
};
using PickersOf = std::map<std::pair<std::int64_t, std::int64_t>, Pickers>;

PickersOf pickers(const Stages& in) {
  PickersOf all;
  for (std::int64_t group = 0; group < in.sizes().batch_groups(); ++group) {
    for (std::int64_t row = 0; row < in.sizes().rows; ++row) {
      for (const std::int64_t block : blocks_of(in, group, row)) {
        Pickers& of = all[{group, block}];
        of.first = of.count++ == 0 ? row : of.first;
        of.last = row;
      }
    }
  }
  return all;
}

// The keys of those of its blocks that `counts` says.
KeyLists picked_lists(const Stages& in,
                      bool all_once,
                      bool (*counts)(const Pickers&, std::int64_t row)) {
  return [&in, all_once, counts, of = pickers(in)](std::int64_t group, std::int64_t row) {
    std::vector<std::int64_t> blocks;
    for (const std::int64_t block : blocks_of(in, group, row)) {
      if (block >= 0 && counts(of.at({group, block}), row)) {
        blocks.push_back(block);
      }
    }
    std::vector<KeyList> lists{selected_tokens(in.config(), in.rows()[row], blocks)};
    if (all_once) {
      lists.push_back(visible_keys(in.query(Branch::sel, group, row)));
    }
    return lists;
  };
}

// ---- laws ---------------------------------------------------------------------------------------

BackwardLaw softmax_law(std::string_view name, std::string_view about, const RowTerms& terms) {
  return {{name, about},
          {Branch::cmp, Branch::sel, Branch::win},
          [terms](const Backward& backward, Branch branch) {
            return through_law(backward, branch, terms);
          }};
}

BackwardLaw list_law(std::string_view name,
                     std::string_view about,
                     std::function<KeyLists(const Stages&)> lists) {
  return {{name, about},
          {Branch::sel},
          [lists = std::move(lists)](const Backward& backward, Branch branch) {
            return through_law(backward, branch, {.lists = lists(backward.forward())});
          },
          true};
}

}  // namespace

std::span<const BackwardLaw> backward_laws() {
  static const std::vector<BackwardLaw> kLaws{
      softmax_law("delta_missing",
                  "the softmax's mean, sum p dp, is not subtracted from dp",
                  {.deltas = 0}),
      softmax_law("delta_twice",
                  "the softmax's mean is subtracted twice, as for each of 2 tiles of the values",
                  {.deltas = 2}),
      softmax_law("delta_3_times",
                  "the softmax's mean is subtracted 3 times, as for each of 3 tiles of the values",
                  {.deltas = 3}),
      softmax_law("delta_4_times",
                  "the softmax's mean is subtracted 4 times, as for each of 4 tiles of the values",
                  {.deltas = 4}),
      softmax_law("delta_8_times",
                  "the softmax's mean is subtracted 8 times, as for each of 8 tiles of the values",
                  {.deltas = 8}),
      {{"gradient_scale_missing", "the gradients of the logits lack the factor 1/sqrt(d_k)"},
       {Branch::cmp, Branch::sel, Branch::win},
       [](const Backward& backward, Branch branch) {
         const auto d_k = static_cast<double>(backward.forward().config().d_k);
         return through_law(backward, branch, {.factor = std::sqrt(d_k)});
       }},
      {{"gradient_scale_twice", "the gradients of the logits have the factor 1/d_k"},
       {Branch::cmp, Branch::sel, Branch::win},
       [](const Backward& backward, Branch branch) {
         const auto d_k = static_cast<double>(backward.forward().config().d_k);
         return through_law(backward, branch, {.factor = 1 / std::sqrt(d_k)});
       }},
      list_law("lists_transposed",
               "keys take the lists of their own queries for the lists of those that chose them",
               [](const Stages& in) { return transposed_lists(in, false); }),
      list_law("lists_transposed_causal",
               "keys take the lists of their own queries for the lists of those that chose them, "
               "and leave out earlier queries",
               [](const Stages& in) { return transposed_lists(in, true); }),
      list_law("last_pick_only",
               "of the queries that chose a block, only the last one adds to its gradient",
               [](const Stages& in) {
                 return picked_lists(
                     in, false, [](const Pickers& of, std::int64_t row) { return of.last == row; });
               }),
      list_law("first_pick_only",
               "of the queries that chose a block, only the first one adds to its gradient",
               [](const Stages& in) {
                 return picked_lists(in, false, [](const Pickers& of, std::int64_t row) {
                   return of.first == row;
                 });
               }),
      list_law("shared_picks_twice",
               "blocks that more than one query chose count twice",
               [](const Stages& in) {
                 return picked_lists(
                     in, true, [](const Pickers& of, std::int64_t) { return of.count > 1; });
               })};
  return kLaws;
}

const BackwardLaw* backward_law(std::string_view name) {
  const std::span<const BackwardLaw> laws = backward_laws();
  const auto at = std::find_if(
      laws.begin(), laws.end(), [&](const BackwardLaw& law) { return law.law.name == name; });
  return at == laws.end() ? nullptr : &*at;
}

}  // namespace oracles
