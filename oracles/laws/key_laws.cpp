#include "oracles/laws/key_laws.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

#include "oracles/attention/activations.h"
#include "oracles/attention/attend.h"
#include "oracles/parallel.h"

namespace oracles {
namespace {

constexpr std::int64_t kGrainRows = 16;
// What implementations write in place of minus infinity.
constexpr double kSentinel = -10000;

// One query of one branch.
struct Query {
  const AttentionConfig& config;
  Branch branch;
  std::int64_t t;
  std::int64_t key_count;  // of the branch: all compressed tokens, or all tokens
  std::span<const std::int64_t> blocks;
};

KeyList right_keys(const Query& query) {
  switch (query.branch) {
    case Branch::cmp: return visible_compressed(query.config, query.t, query.key_count);
    case Branch::sel: return selected_tokens(query.config, query.t, query.blocks);
    default: return window_tokens(query.config, query.t);
  }
}

KeyList first_keys(std::int64_t count) {
  KeyList keys;
  append_range(keys, 0, count);
  return keys;
}

// Keys of [0, count) that are not in `keys`.
KeyList all_but(const KeyList& keys, std::int64_t count) {
  KeyList rest;
  std::int64_t begin = 0;
  for (const KeyRange& range : keys) {
    append_range(rest, begin, std::min(range.begin, count));
    begin = range.end;
  }
  append_range(rest, begin, count);
  return rest;
}

// All tokens of the selected blocks, those after the query too.
KeyList whole_blocks(const Query& query) {
  return selected_tokens(query.config, query.key_count - 1, query.blocks);
}

KeyList top_left(const Query& query) {
  const KeyList right = right_keys(query);
  KeyList keys;
  if (!right.empty()) {
    append_range(keys, right.front().begin, right.front().begin + 1);
  }
  return keys;
}

KeyList inverted(const Query& query) {
  return all_but(right_keys(query), query.key_count);
}

KeyList inverted_past(const Query& query) {
  return all_but(right_keys(query), query.t + 1);
}

KeyList inverted_slice(const Query& query) {
  KeyList keys;
  for (const KeyRange& range : whole_blocks(query)) {
    append_range(keys, std::max(range.begin, query.t + 1), range.end);
  }
  return keys;
}

KeyList no_mask(const Query& query) {
  return query.branch == Branch::sel ? whole_blocks(query) : first_keys(query.key_count);
}

KeyList every_key(const Query& query) {
  return first_keys(query.key_count);
}

KeyList every_past_key(const Query& query) {
  return first_keys(query.t + 1);
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

KeyList drop_current(const Query& query) {
  const std::int64_t current = query.t / query.config.l_sel;
  if (query.t + 1 == (current + 1) * query.config.l_sel) {
    return right_keys(query);
  }
  KeyList keys;
  for (const KeyRange& range : right_keys(query)) {
    append_range(keys, range.begin, std::min(range.end, current * query.config.l_sel));
  }
  return keys;
}

struct Rule {
  KeyLaw law;
  KeyList (*keys)(const Query&);
  // Of the keys listed, those that the right law does not list get the sentinel as logit.
  bool sentinel = false;
};

const std::vector<Rule>& rules() {
  using enum Branch;
  static const std::vector<Rule> kRules{
      {{"top_left", {cmp, sel, win}, "the first key of its list only"}, top_left},
      {{"inverted", {cmp, sel, win}, "every key of the sequence that it should not"}, inverted},
      {{"inverted_past", {sel, win}, "every key up to its own that it should not"}, inverted_past},
      {{"inverted_slice", {sel}, "the keys after it in the selected blocks"}, inverted_slice},
      {{"no_mask", {cmp, sel, win}, "all keys: of the selected blocks (sel), of the sequence"},
       no_mask},
      {{"every_key", {sel}, "all keys of the sequence"}, every_key},
      {{"every_past_key", {sel, win}, "all keys up to its own"}, every_past_key},
      {{"one_longer", {win}, "a window of w + 1"}, one_longer},
      {{"one_shorter", {win}, "a window of w - 1"}, one_shorter},
      {{"drop_current", {sel}, "not the current block while it is incomplete"}, drop_current},
      {{"finite_sentinel", {cmp, sel, win}, "masked keys too, with the logit -10000"},
       every_key,
       true}};
  return kRules;
}

const Rule& rule_for(std::string_view name, Branch branch) {
  for (const Rule& rule : rules()) {
    const std::vector<Branch>& branches = rule.law.branches;
    if (rule.law.name == name &&
        std::find(branches.begin(), branches.end(), branch) != branches.end()) {
      return rule;
    }
  }
  throw std::invalid_argument("no key law " + std::string(name) + " for the branch " +
                              branch_name(branch));
}

// Logits of keys that are not in `allowed`, of the first keys of a branch.
void put_sentinel(const KeyList& allowed, std::int64_t heads, std::vector<double>& s_hK) {
  const auto count = static_cast<std::int64_t>(s_hK.size()) / heads;
  for (const KeyRange& range : all_but(allowed, count)) {
    for (std::int64_t head = 0; head < heads; ++head) {
      std::fill(s_hK.begin() + head * count + range.begin,
                s_hK.begin() + head * count + range.end,
                kSentinel);
    }
  }
}

}  // namespace

std::span<const KeyLaw> key_laws() {
  static const std::vector<KeyLaw> kLaws = [] {
    std::vector<KeyLaw> laws;
    for (const Rule& rule : rules()) {
      laws.push_back(rule.law);
    }
    return laws;
  }();
  return kLaws;
}

struct KeyLawOutputs::State {
  AttentionConfig config;
  int threads = 0;
  Projections projections;
  IntTensor blocks;  // [B,G,R,n_sel]
  std::array<std::vector<KeyBank>, 3> banks;

  [[nodiscard]] Query query(Branch branch, std::int64_t group, std::int64_t row) const {
    const std::int64_t place = group * projections.sizes.rows + row;
    return {config,
            branch,
            projections.rows[row],
            banks[index_of(branch)][group].count(),
            {blocks.data.data() + place * config.n_sel, static_cast<std::size_t>(config.n_sel)}};
  }

  void attend_row(const Rule& rule,
                  const Query& query,
                  std::int64_t group,
                  std::int64_t row,
                  Tensor& out,
                  std::vector<double>& work) const {
    const KeyBank& bank = banks[index_of(query.branch)][group];
    const KeyList keys = rule.keys(query);
    const View q = head_rows(projections.q_BGhRD, group, row);
    scaled_logits(bank, keys, q, work);
    if (rule.sentinel) {
      put_sentinel(right_keys(query), q.rows, work);
    }
    softmax_rows(work, q.rows);
    weighted_values(bank, keys, work, head_rows(out, group, row));
  }

  [[nodiscard]] Tensor output(const Rule& rule, Branch branch) const {
    const Sizes& n = projections.sizes;
    Tensor out = zeros({n.batch, n.groups, n.heads, n.rows, config.d_v});
    parallel_for(
        n.batch_groups() * n.rows, kGrainRows, threads, [&](std::int64_t begin, std::int64_t end) {
          std::vector<double> work;
          for (std::int64_t place = begin; place < end; ++place) {
            const std::int64_t group = place / n.rows;
            const std::int64_t row = place % n.rows;
            attend_row(rule, query(branch, group, row), group, row, out, work);
          }
        });
    return out;
  }
};

KeyLawOutputs::KeyLawOutputs(const AttentionConfig& config,
                             const Weights& weights,
                             const Tensor& x,
                             const AttentionOptions& options) {
  auto state = std::make_unique<State>();
  state->config = config;
  state->threads = options.threads;
  Activations forward = run_forward({config, weights, options.threads}, x, options);
  state->projections = std::move(forward.projections);
  state->blocks = std::move(forward.attended);
  for (const Branch branch : kBranches) {
    state->banks[index_of(branch)] = key_banks(state->projections.branches[index_of(branch)]);
  }
  state_ = std::move(state);
}

KeyLawOutputs::KeyLawOutputs(const AttentionConfig& config, AttendInputs inputs, int threads) {
  validate(config);
  if (inputs.q.shape.size() != 5 || inputs.k[index_of(Branch::win)].shape.size() != 4) {
    throw std::invalid_argument("recorded inputs: wanted q [B,G,h,R,D] and keys [B,G,S,D]");
  }
  auto state = std::make_unique<State>();
  state->config = config;
  state->threads = threads;
  Projections& in = state->projections;
  in.sizes = {inputs.q.shape[0],
              inputs.k[index_of(Branch::win)].shape[2],
              inputs.q.shape[3],
              config.n_kv_groups,
              config.heads_per_group()};
  const Sizes& n = in.sizes;
  in.rows = requested_rows(inputs.rows, n.length);
  require_shape(inputs.q, {n.batch, n.groups, n.heads, n.rows, config.d_k}, "q");
  require_shape(inputs.blocks, {n.batch, n.groups, n.rows, config.n_sel}, "blocks");
  if (static_cast<std::int64_t>(in.rows.size()) != n.rows) {
    throw std::invalid_argument("recorded inputs: as many rows as queries are wanted");
  }
  for (const Branch branch : kBranches) {
    const std::size_t i = index_of(branch);
    const std::int64_t count = branch == Branch::cmp ? config.compressed_count(n.length) : n.length;
    require_shape(inputs.k[i], {n.batch, n.groups, count, config.d_k}, branch_name(branch));
    require_shape(inputs.v[i], {n.batch, n.groups, count, config.d_v}, branch_name(branch));
    in.branches[i] = {std::move(inputs.k[i]), std::move(inputs.v[i])};
  }
  in.q_BGhRD = std::move(inputs.q);
  state->blocks = std::move(inputs.blocks);
  for (const Branch branch : kBranches) {
    state->banks[index_of(branch)] = key_banks(in.branches[index_of(branch)]);
  }
  state_ = std::move(state);
}

KeyLawOutputs::~KeyLawOutputs() = default;
KeyLawOutputs::KeyLawOutputs(KeyLawOutputs&&) noexcept = default;
KeyLawOutputs& KeyLawOutputs::operator=(KeyLawOutputs&&) noexcept = default;

Tensor KeyLawOutputs::output(std::string_view law, Branch branch) const {
  return state_->output(rule_for(law, branch), branch);
}

Tensor KeyLawOutputs::right_output(Branch branch) const {
  return state_->output({{"right", {}, ""}, right_keys}, branch);
}

KeyList KeyLawOutputs::keys(
    std::string_view law, Branch branch, std::int64_t b, std::int64_t g, std::int64_t row) const {
  const Sizes& n = state_->projections.sizes;
  if (b < 0 || b >= n.batch || g < 0 || g >= n.groups || row < 0 || row >= n.rows) {
    throw std::invalid_argument("no such query");
  }
  return rule_for(law, branch).keys(state_->query(branch, b * n.groups + g, row));
}

}  // namespace oracles
