// Wrong laws of the branch outputs, from right queries, keys, values and blocks. Those that concern
// the compressed branch's probabilities concern the block scores as well.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "oracles/laws/attend_law.h"
#include "oracles/laws/families.h"
#include "oracles/laws/probability_laws.h"

namespace oracles {
namespace {

using enum Stage;

double root(std::int64_t width) {
  return std::sqrt(static_cast<double>(width));
}

// ---- which keys ------------------------------------------------------------------------------

// All tokens of the selected blocks, those after the query too.
KeyList whole_blocks(const Query& query) {
  return selected_tokens(query.config, query.key_count - 1, query.blocks);
}

KeyList first_of_list(const Query& query) {
  const KeyList right = visible_keys(query);
  KeyList keys;
  if (!right.empty()) {
    append_range(keys, right.front().begin, right.front().begin + 1);
  }
  return keys;
}

KeyList inverted(const Query& query) {
  return all_but(visible_keys(query), query.key_count);
}
KeyList inverted_past(const Query& query) {
  return all_but(visible_keys(query), query.t + 1);
}
KeyList inverted_slice(const Query& query) {
  KeyList keys;
  for (const KeyRange& range : whole_blocks(query)) {
    append_range(keys, std::max(range.begin, query.t + 1), range.end);
  }
  return keys;
}

KeyList every_key(const Query& query) {
  return first_keys(query.key_count);
}
KeyList every_past_key(const Query& query) {
  return first_keys(query.t + 1);
}
KeyList no_mask(const Query& query) {
  return query.branch == Branch::sel ? whole_blocks(query) : every_key(query);
}

KeyList window_of(const Query& query, std::int64_t change) {
  KeyList keys;
  append_range(keys, std::max<std::int64_t>(0, query.t - query.config.w + 1 - change), query.t + 1);
  return keys;
}
KeyList one_longer(const Query& query) {
  return window_of(query, 1);
}
KeyList one_shorter(const Query& query) {
  return window_of(query, -1);
}
KeyList one_back(const Query& query) {
  KeyList keys;
  append_range(keys, std::max<std::int64_t>(0, query.t - query.config.w), query.t);
  return keys;
}

KeyList drop_current(const Query& query) {
  const std::int64_t current = query.t / query.config.l_sel;
  if (query.t + 1 == (current + 1) * query.config.l_sel) {
    return visible_keys(query);
  }
  KeyList keys;
  for (const KeyRange& range : visible_keys(query)) {
    append_range(keys, range.begin, std::min(range.end, current * query.config.l_sel));
  }
  return keys;
}

// Block j is taken for the tokens [j*length, (j+1)*length).
KeyList blocks_of(const Query& query, std::int64_t length) {
  AttentionConfig config = query.config;
  config.l_sel = length;
  return selected_tokens(config, query.t, query.blocks);
}
KeyList blocks_of_half(const Query& query) {
  return blocks_of(query, query.config.l_sel / 2);
}
KeyList blocks_of_double(const Query& query) {
  return blocks_of(query, query.config.l_sel * 2);
}

KeyList blocks_of_l(const Query& query) {
  return blocks_of(query, query.config.l);
}

std::int64_t empty_slots(const Query& query) {
  return std::count_if(query.blocks.begin(), query.blocks.end(), [](auto j) { return j < 0; });
}
bool lists_block_zero(const Query& query) {
  return std::find(query.blocks.begin(), query.blocks.end(), 0) != query.blocks.end();
}
// The keys of the list, and the first `count` ones where a slot is empty and block 0 is not listed.
KeyList with_first_keys(const Query& query, std::int64_t count) {
  const KeyList right = visible_keys(query);
  if (empty_slots(query) == 0 || lists_block_zero(query)) return right;
  KeyList keys;
  append_range(keys, 0, std::min(count, query.t + 1));
  for (const KeyRange& range : right) {
    append_range(keys, range.begin, range.end);
  }
  return keys;
}

KeyList empty_slots_of_block(const Query& query) {
  return with_first_keys(query, query.config.l_sel);
}
std::int64_t times_of_block(const Query& query, std::int64_t key) {
  if (key >= query.config.l_sel) return 1;
  return empty_slots(query) + (lists_block_zero(query) ? 1 : 0);
}

KeyList empty_slots_of_key(const Query& query) {
  return with_first_keys(query, 1);
}
std::int64_t times_of_key(const Query& query, std::int64_t key) {
  if (key > 0) return 1;
  return empty_slots(query) * query.config.l_sel + (lists_block_zero(query) ? 1 : 0);
}

// Compressed tokens [first, visible + more).
KeyList compressed_keys(const Query& query, std::int64_t first, std::int64_t more) {
  const std::int64_t visible = key_count(visible_keys(query));
  KeyList keys;
  append_range(keys, first, std::clamp<std::int64_t>(visible + more, 0, query.key_count));
  return keys;
}
// Those whose tokens [i*d, i*d + length) lie up to `last`.
KeyList seen_up_to(const Query& query, std::int64_t length, std::int64_t last) {
  AttentionConfig config = query.config;
  config.l = length;
  return visible_compressed(config, last, query.key_count);
}

// ---- laws --------------------------------------------------------------------------------------

StageLaw attend_law(std::string_view name,
                    std::vector<Stage> stages,
                    std::string_view about,
                    const AttendTerms& terms,
                    std::function<bool(const Stages&, Stage)> makes_sense = {}) {
  return {{name, about},
          std::move(stages),
          [terms](const Stages& in, Stage stage) {
            return AttendUnder(in, branch_of(stage), terms).output();
          },
          std::move(makes_sense)};
}

std::vector<StageLaw> key_laws() {
  return {
      attend_law("top_left",
                 {o_cmp, o_sel, o_win},
                 "a query sees the first key of its list only",
                 {.keys = first_of_list}),
      attend_law("inverted",
                 {o_cmp, o_sel, o_win},
                 "a query sees every key of the sequence that it should not",
                 {.keys = inverted}),
      attend_law("inverted_past",
                 {o_sel, o_win},
                 "a query sees every key up to its own that it should not",
                 {.keys = inverted_past}),
      attend_law("inverted_slice",
                 {o_sel},
                 "a query sees the keys after it in the selected blocks",
                 {.keys = inverted_slice}),
      attend_law("no_mask",
                 {o_cmp, o_sel, o_win},
                 "a query sees all keys: of the selected blocks (sel), of the sequence",
                 {.keys = no_mask}),
      attend_law(
          "every_key", {o_sel}, "a query sees all keys of the sequence", {.keys = every_key}),
      attend_law("every_past_key",
                 {o_sel, o_win},
                 "a query sees all keys up to its own",
                 {.keys = every_past_key}),
      attend_law("one_longer", {o_win}, "a query sees a window of w + 1", {.keys = one_longer}),
      attend_law("one_shorter", {o_win}, "a query sees a window of w - 1", {.keys = one_shorter}),
      attend_law("one_back",
                 {o_win},
                 "a query sees the w tokens before it, and not its own",
                 {.keys = one_back}),
      attend_law("drop_current",
                 {o_sel},
                 "a query does not see the current block while it is incomplete",
                 {.keys = drop_current}),
      attend_law("blocks_of_l",
                 {o_sel},
                 "block j is taken for the tokens [j*l, (j+1)*l): l in place of l_sel",
                 {.keys = blocks_of_l},
                 [](const Stages& in, Stage) { return in.config().l != in.config().l_sel; }),
      attend_law(
          "blocks_half_as_long",
          {o_sel},
          "blocks of half the length: block j is taken for the l_sel / 2 tokens from j*l_sel/2 on",
          {.keys = blocks_of_half},
          [](const Stages& in, Stage) {
            return in.config().l_sel % 2 == 0 && 2 * in.config().l != in.config().l_sel;
          }),
      attend_law(
          "blocks_twice_as_long",
          {o_sel},
          "blocks of twice the length: block j is taken for the 2*l_sel tokens from 2*j*l_sel on",
          {.keys = blocks_of_double},
          [](const Stages& in, Stage) { return in.config().l != 2 * in.config().l_sel; })};
}

std::int64_t interleaved(const AttentionConfig& c, std::int64_t g, std::int64_t i) {
  return (g * c.heads_per_group() + i) % c.n_kv_groups;
}

// Heads of queries and of groups in another order than that of keys and values.
std::vector<StageLaw> head_laws() {
  const std::vector<Stage> all = {o_cmp, o_sel, o_win};
  return {
      attend_law(
          "keys_interleaved",
          all,
          "keys, but not values, of group hq mod G: repeated where they should be interleaved",
          {.key_group = interleaved},
          has_groups_of_heads),
      attend_law(
          "values_interleaved",
          all,
          "values, but not keys, of group hq mod G: repeated where they should be interleaved",
          {.value_group = interleaved},
          has_groups_of_heads),
      attend_law(
          "queries_group_minor",
          all,
          "queries read as [h, G] heads, not as [G, h]: head i of group g is query head i*G + g",
          {.query_head = [](const AttentionConfig& c,
                            std::int64_t g,
                            std::int64_t i) { return i * c.n_kv_groups + g; }},
          has_groups_of_heads),
      {{"outputs_group_minor",
        "outputs written as [h, G] heads, not as [G, h]: head i of group g in the place i*G + g"},
       all,
       [](const Stages& in, Stage stage) {
         const Tensor right = in.right(stage);
         Tensor out = right;
         const std::int64_t heads = in.config().n_heads;
         const std::int64_t size = right.shape[3] * right.shape[4];
         for (std::int64_t head = 0; head < right.shape[0] * heads; ++head) {
           const std::int64_t own = head % heads;
           std::copy_n(right.data.begin() + head * size,
                       size,
                       out.data.begin() + (head - own + group_minor(in.config(), own)) * size);
         }
         return out;
       },
       has_groups_of_heads}};
}

std::vector<StageLaw> operand_laws() {
  const std::vector<Stage> all = {o_cmp, o_sel, o_win};
  std::vector<StageLaw> laws = {
      attend_law("forced_twice",
                 {o_sel},
                 "a block forced both at the start and at the end counts twice",
                 {.times = [](const Query& query, std::int64_t key) -> std::int64_t {
                   const AttentionConfig& c = query.config;
                   const std::int64_t block = key / c.l_sel;
                   const bool local = block > query.t / c.l_sel - c.local_blocks;
                   return block < c.init_blocks && local ? 2 : 1;
                 }},
                 [](const Stages& in, Stage) { return in.config().init_blocks > 0; }),
      attend_law("current_twice",
                 {o_sel},
                 "the current block counts twice",
                 {.times = [](const Query& query, std::int64_t key) -> std::int64_t {
                   return key / query.config.l_sel == query.t / query.config.l_sel ? 2 : 1;
                 }}),
      attend_law("empty_slots_block_zero",
                 {o_sel},
                 "each empty slot of a list is read as block 0, once more",
                 {.keys = empty_slots_of_block, .times = times_of_block}),
      attend_law("empty_slots_key_zero",
                 {o_sel},
                 "each empty slot of a list is read as l_sel times key 0",
                 {.keys = empty_slots_of_key, .times = times_of_key},
                 [](const Stages& in, Stage) { return in.config().l_sel > 1; }),
      attend_law("next_groups_values",
                 all,
                 "values of group g + 1, of the first for the last",
                 {.value_group = [](const AttentionConfig& c,
                                    std::int64_t g,
                                    std::int64_t) { return (g + 1) % c.n_kv_groups; }},
                 has_groups),
      attend_law("keys_unrotated", {o_sel, o_win}, "keys not rotated", {.rotated_keys = false}),
      attend_law("values_one_late", all, "the value of key u + 1 with key u", {.value_shift = 1}),
      attend_law(
          "values_one_early", all, "the value of key u - 1 with key u", {.value_shift = -1})};
  // One branch's keys or values in place of another's; compressed ones are of another number.
  for (const auto& [stage, other, both, keys, values] :
       {std::tuple{o_sel, Branch::win, "keys_and_values_of_win", "keys_of_win", "values_of_win"},
        std::tuple{o_win, Branch::sel, "keys_and_values_of_sel", "keys_of_sel", "values_of_sel"}}) {
    laws.push_back(attend_law(both,
                              {stage},
                              "keys and values of the other uncompressed branch",
                              {.keys_of = other, .values_of = other}));
    laws.push_back(
        attend_law(keys, {stage}, "keys of the other uncompressed branch", {.keys_of = other}));
    laws.push_back(attend_law(
        values, {stage}, "values of the other uncompressed branch", {.values_of = other}));
  }
  return laws;
}

}  // namespace

std::vector<StageLaw> visibility_laws(MakeLaw make) {
  return {make("seen_one_late",
               "a query sees compressed tokens with i*d + l - 1 < t: each one token too late",
               {.keys = [](const Query& q) { return seen_up_to(q, q.config.l, q.t - 1); }}),
          make("seen_one_early",
               "a query sees compressed tokens with i*d + l - 1 <= t + 1: each one token too early",
               {.keys = [](const Query& q) { return seen_up_to(q, q.config.l, q.t + 1); }}),
          where(make("seen_when_begun",
                     "a query sees compressed tokens with i*d <= t: those that have begun",
                     {.keys = [](const Query& q) { return seen_up_to(q, 1, q.t); }}),
                [](const Stages& in, Stage) { return in.config().l > 1; }),
          make("last_window_unseen",
               "a query does not see the last of its compressed tokens",
               {.keys = [](const Query& q) { return compressed_keys(q, 0, -1); }}),
          make("first_window_unseen",
               "a query does not see the first compressed token",
               {.keys = [](const Query& q) { return compressed_keys(q, 1, 0); }}),
          make("next_window_seen",
               "a query sees the compressed token after its last one too",
               {.keys = [](const Query& q) { return compressed_keys(q, 0, 1); }}),
          make("first_row_zero",
               "the first row that sees a compressed token is left zero",
               {.left_out = [](const Query& q) { return q.t == q.config.l - 1; }})};
}

std::vector<StageLaw> softmax_laws(MakeLaw make) {
  using Config = AttentionConfig;
  return {
      make("normalised_over_all",
           "softmax over every key of the branch, masked afterwards",
           {.masked_late = true}),
      make("finite_sentinel",
           "masked keys too, with the logit -10000",
           {.keys = every_key, .sentinel = true}),
      make("scale_missing", "logits q.k", {.factor = [](const Config& c) { return root(c.d_k); }}),
      make("scale_twice",
           "logits q.k / d_k",
           {.factor = [](const Config& c) { return 1 / root(c.d_k); }}),
      where(make("scale_of_values",
                 "logits q.k / sqrt(d_v)",
                 {.factor = [](const Config& c) { return root(c.d_k) / root(c.d_v); }}),
            [](const Stages& in, Stage) { return in.config().d_k != in.config().d_v; }),
      where(make("scale_of_all_heads",
                 "logits q.k / sqrt(H * d_k)",
                 {.factor = [](const Config& c) { return 1 / root(c.n_heads); }}),
            [](const Stages& in, Stage) { return in.config().n_heads > 1; }),
      make("base_two",
           "powers of 2 in place of e, without the factor log2 e",
           {.factor = [](const Config&) { return std::log(2.0); }}),
      make("base_two_factor_left",
           "powers of e of logits that have the factor log2 e",
           {.factor = [](const Config&) { return 1 / std::log(2.0); }}),
      make("queries_unrotated", "queries not rotated", {.rotated_queries = false})};
}

std::vector<StageLaw> group_laws(MakeLaw make) {
  // The group that head i of g meets, `by` groups further on.
  static constexpr std::array<std::pair<const char*, GroupOf>, 7> kShifts{
      {{"next_groups_keys", [](const auto& c, auto g, auto) { return (g + 1) % c.n_kv_groups; }},
       {"groups_shifted_by_2", [](const auto& c, auto g, auto) { return (g + 2) % c.n_kv_groups; }},
       {"groups_shifted_by_3", [](const auto& c, auto g, auto) { return (g + 3) % c.n_kv_groups; }},
       {"groups_shifted_by_4", [](const auto& c, auto g, auto) { return (g + 4) % c.n_kv_groups; }},
       {"groups_shifted_by_5", [](const auto& c, auto g, auto) { return (g + 5) % c.n_kv_groups; }},
       {"groups_shifted_by_6", [](const auto& c, auto g, auto) { return (g + 6) % c.n_kv_groups; }},
       {"groups_shifted_by_7",
        [](const auto& c, auto g, auto) { return (g + 7) % c.n_kv_groups; }}}};
  std::vector<StageLaw> laws;
  for (std::size_t i = 0; i < kShifts.size(); ++i) {
    const auto by = static_cast<std::int64_t>(i + 1);
    laws.push_back(where(make(kShifts[i].first,
                              by == 1 ? "keys and values of group g + 1, of the first for the last"
                                      : "keys and values of another group",
                              {.key_group = kShifts[i].second, .value_group = kShifts[i].second}),
                         [by](const Stages& in, Stage) { return by < in.config().n_kv_groups; }));
  }
  laws.push_back(where(make("heads_interleaved",
                            "keys and values of group hq mod G",
                            {.key_group = interleaved, .value_group = interleaved}),
                       has_groups_of_heads));
  return laws;
}

std::vector<StageLaw> attend_laws() {
  const auto of_compressed =
      [](std::string_view name, std::string_view about, const AttendTerms& terms) {
        return attend_law(name, {o_cmp}, about, terms);
      };
  const auto of_all = [](std::string_view name, std::string_view about, const AttendTerms& terms) {
    return attend_law(name, {o_cmp, o_sel, o_win}, about, terms);
  };
  return joined({key_laws(),
                 visibility_laws(of_compressed),
                 softmax_laws(of_all),
                 group_laws(of_all),
                 operand_laws(),
                 head_laws()});
}

}  // namespace oracles
